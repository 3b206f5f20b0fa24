#include "ops/activation.h"

#include <cmath>

#include "cuda/pack.cuh"
#include "cuda/range.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr unsigned kActivationThreads = 256;

// Returns |x|, at most 15: beyond, the normal tail is 0 in fp32, and infinity
// times 0 would be NaN.
__device__ __forceinline__ float bounded_distance(float x) {
  const float a = fabsf(x);
  return a > 15.0f ? 15.0f : a;  // propagates NaN
}

// One-sided tail probability beyond `distance`.
__device__ __forceinline__ float normal_tail(float distance) {
  constexpr float kSqrtHalf = 0x1.6a09e6p-1f;
  return 0.5f * erfcf(distance * kSqrtHalf);
}

template <typename T>
__global__ void __launch_bounds__(kActivationThreads)
    gelu_forward_kernel(T* y, const T* x, RangeSplit range) {
  for_range<kPackElems<T>>(range, [&](auto width, int64_t first) {
    using Elems = Pack<T, width()>;
    Elems pack = Elems::load(x + first);
    for (int i = 0; i < width(); ++i) {
      const float value = pack.get(i), a = bounded_distance(value);
      pack.set(i, (value > 0 ? value : 0.0f) - a * normal_tail(a));
    }
    pack.store(y + first);
  });
}

template <typename T>
__global__ void __launch_bounds__(kActivationThreads)
    gelu_backward_kernel(T* dx, const T* dy, const T* x, RangeSplit range) {
  constexpr float kDensityAtMean = 0x1.988454p-2f;  // 1 / sqrt(2 pi)
  for_range<kPackElems<T>>(range, [&](auto width, int64_t first) {
    using Elems = Pack<T, width()>;
    Elems pack = Elems::load(x + first);
    const Elems upstream = Elems::load(dy + first);
    for (int i = 0; i < width(); ++i) {
      const float value = pack.get(i), a = bounded_distance(value);
      // For x as for -x: the distance of Phi(x) + x phi(x) from 1, or its
      // value.
      const float rest =
          normal_tail(a) - a * expf(-0.5f * a * a) * kDensityAtMean;
      pack.set(i, upstream.get(i) * (value > 0 ? 1.0f - rest : rest));
    }
    pack.store(dx + first);
  });
}

namespace {

template <typename T>
dim3 blocks_of(const RangeSplit& range) {
  return dim3(grid_for(range.items(kPackElems<T>), kActivationThreads));
}

template <typename T>
void forward(Context& context, Tensor y, ConstTensor x) {
  auto* to = static_cast<T*>(y.data);
  const auto* from = static_cast<const T*>(x.data);
  const auto range = split_range<kPackElems<T>>(y.elems(), to, from);
  launch(gelu_forward_kernel<T>, blocks_of<T>(range), dim3(kActivationThreads),
         0, context.stream(), to, from, range);
}

template <typename T>
void backward(Context& context, Tensor dx, ConstTensor dy, ConstTensor x) {
  auto* to = static_cast<T*>(dx.data);
  const auto* upstream = static_cast<const T*>(dy.data);
  const auto* from = static_cast<const T*>(x.data);
  const auto range = split_range<kPackElems<T>>(dx.elems(), to, upstream, from);
  launch(gelu_backward_kernel<T>, blocks_of<T>(range), dim3(kActivationThreads),
         0, context.stream(), to, upstream, from, range);
}

}  // namespace

void gelu_forward(Context& context, Tensor y, ConstTensor x) {
  y.dtype == DType::kF32 ? forward<float>(context, y, x)
                         : forward<Bf16>(context, y, x);
}

void gelu_backward(Context& context, Tensor dx, ConstTensor dy, ConstTensor x) {
  dx.dtype == DType::kF32 ? backward<float>(context, dx, dy, x)
                          : backward<Bf16>(context, dx, dy, x);
}

}  // namespace syncopate::cuda
