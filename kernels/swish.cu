#include "ops/swish.h"

#include <cmath>

#include "cuda/pack.cuh"
#include "cuda/range.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr unsigned kSwishThreads = 256;

// s(-|x|), and |x| bounded where that is 0 in fp32: infinity times 0 would be
// NaN.
struct LogisticTail {
  float distance, share;
};
__device__ __forceinline__ LogisticTail logistic_tail(float x) {
  const float magnitude = fabsf(x);
  const float a = magnitude > 104.0f ? 104.0f : magnitude;  // propagates NaN
  const float e = expf(-a);
  return {a, e / (1.0f + e)};
}

template <typename T>
__global__ void swish_forward_kernel(T* y, const T* x, RangeSplit range) {
  for_range<kPackElems<T>>(range, [&](auto width, int64_t first) {
    using Elems = Pack<T, width()>;
    Elems pack = Elems::load(x + first);
    for (int i = 0; i < width(); ++i) {
      const float value = pack.get(i);
      const LogisticTail tail = logistic_tail(value);
      pack.set(i, value > 0 ? value * (1.0f - tail.share)
                            : -tail.distance * tail.share);
    }
    pack.store(y + first);
  });
}

template <typename T>
__global__ void swish_backward_kernel(T* dx,
                                      const T* dy,
                                      const T* x,
                                      RangeSplit range) {
  for_range<kPackElems<T>>(range, [&](auto width, int64_t first) {
    using Elems = Pack<T, width()>;
    Elems pack = Elems::load(x + first);
    const Elems upstream = Elems::load(dy + first);
    for (int i = 0; i < width(); ++i) {
      const float value = pack.get(i);
      const LogisticTail tail = logistic_tail(value);
      // The derivative (x < 0), or its difference from 1 (x > 0).
      const float rest =
          tail.share - tail.distance * tail.share * (1.0f - tail.share);
      pack.set(i, upstream.get(i) * (value > 0 ? 1.0f - rest : rest));
    }
    pack.store(dx + first);
  });
}

namespace {

template <typename T>
dim3 blocks_of(const RangeSplit& range) {
  return dim3(grid_for(range.items(kPackElems<T>), kSwishThreads));
}

template <typename T>
void forward(Context& context, Tensor y, ConstTensor x) {
  auto* to = static_cast<T*>(y.data);
  const auto* from = static_cast<const T*>(x.data);
  const auto range = split_range<kPackElems<T>>(y.elems(), to, from);
  launch(swish_forward_kernel<T>, blocks_of<T>(range), dim3(kSwishThreads), 0,
         context.stream(), to, from, range);
}

template <typename T>
void backward(Context& context, Tensor dx, ConstTensor dy, ConstTensor x) {
  auto* to = static_cast<T*>(dx.data);
  const auto* upstream = static_cast<const T*>(dy.data);
  const auto* from = static_cast<const T*>(x.data);
  const auto range = split_range<kPackElems<T>>(dx.elems(), to, upstream, from);
  launch(swish_backward_kernel<T>, blocks_of<T>(range), dim3(kSwishThreads), 0,
         context.stream(), to, upstream, from, range);
}

}  // namespace

void swish_forward(Context& context, Tensor y, ConstTensor x) {
  y.dtype == DType::kF32 ? forward<float>(context, y, x)
                         : forward<Bf16>(context, y, x);
}

void swish_backward(Context& context,
                    Tensor dx,
                    ConstTensor dy,
                    ConstTensor x) {
  dx.dtype == DType::kF32 ? backward<float>(context, dx, dy, x)
                          : backward<Bf16>(context, dx, dy, x);
}

}  // namespace syncopate::cuda
