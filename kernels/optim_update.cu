#include "cuda/pack.cuh"
#include "cuda/range.cuh"
#include "cuda/shadow.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr unsigned kThreads = 256;

constexpr int kUpdatePack = kPackElems<float>;

// Returns the factor of the rate and updates m. Multiplications and additions
// are fused by hand, so an element gets the same bits in a pack as alone: a
// slice updates as the whole range would.
template <bool kHasMomentum, bool kNesterov>
__device__ __forceinline__ float direction_of(float x,
                                              float* m,
                                              float gradient,
                                              float grad_scale,
                                              const SgdParams& params) {
  const float step = fmaf(grad_scale, gradient, params.weight_decay * x);
  if constexpr (!kHasMomentum) return step;
  *m = fmaf(params.momentum, *m, step);
  return kNesterov ? fmaf(params.momentum, *m, step) : *m;
}

// Calls put(xs, directions, first) with packs of all elements once m has been
// written.
template <bool kHasMomentum, bool kNesterov, typename Put>
__device__ __forceinline__ void for_directions(const float* x,
                                               float* m,
                                               const float* gradient,
                                               const SgdParams& params,
                                               const RangeSplit& range,
                                               const Put& put) {
  const float grad_scale = params.clip_factor == nullptr
                               ? params.grad_scale
                               : params.grad_scale * *params.clip_factor;
  for_range<kUpdatePack>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    const Elems xs = Elems::load(x + first);
    const Elems gs = Elems::load(gradient + first);
    Elems ms{}, directions;
    if constexpr (kHasMomentum) ms = Elems::load(m + first);
    for (int i = 0; i < width(); ++i)
      directions.elem[i] = direction_of<kHasMomentum, kNesterov>(
          xs.elem[i], &ms.elem[i], gs.elem[i], grad_scale, params);
    if constexpr (kHasMomentum) ms.store(m + first);
    put(xs, directions, first);
  });
}

template <bool kHasMomentum, bool kNesterov>
__global__ void __launch_bounds__(kThreads)
    sgd_update_kernel(float* x,
                      float* m,  // null without momentum
                      const float* gradient,
                      SgdParams params,
                      RangeSplit range) {
  for_directions<kHasMomentum, kNesterov>(
      x, m, gradient, params, range,
      [&](auto xs, const auto& directions, int64_t first) {
        for (int i = 0; i < xs.kCount; ++i)
          xs.elem[i] = fmaf(-params.rate, directions.elem[i], xs.elem[i]);
        xs.store(x + first);
        store_copies(params.copies, first, xs);
      });
}

template <bool kHasMomentum, bool kNesterov>
__global__ void __launch_bounds__(kThreads)
    sgd_direction_kernel(float* direction,
                         const float* x,
                         float* m,  // null without momentum
                         const float* gradient,
                         SgdParams params,
                         RangeSplit range) {
  for_directions<kHasMomentum, kNesterov>(
      x, m, gradient, params, range,
      [&](const auto&, const auto& directions, int64_t first) {
        directions.store(direction + first);
      });
}

void sgd_update(Context& context,
                std::span<float> x,
                std::span<float> momentum_buffer,
                std::span<const float> gradient,
                const SgdParams& params) {
  const auto kernel = momentum_buffer.empty() ? sgd_update_kernel<false, false>
                      : params.nesterov       ? sgd_update_kernel<true, true>
                                              : sgd_update_kernel<true, false>;
  float* m = momentum_buffer.empty() ? nullptr : momentum_buffer.data();
  const RangeSplit range =
      split_range<kUpdatePack>(std::ssize(x), x.data(), m, gradient.data());
  launch(kernel, dim3(grid_for(range.items(kUpdatePack), kThreads)),
         dim3(kThreads), 0, context.stream(), x.data(), m, gradient.data(),
         params, range);
}

void sgd_direction(Context& context,
                   std::span<float> direction,
                   std::span<const float> x,
                   std::span<float> momentum_buffer,
                   std::span<const float> gradient,
                   const SgdParams& params) {
  const auto kernel = momentum_buffer.empty()
                          ? sgd_direction_kernel<false, false>
                      : params.nesterov ? sgd_direction_kernel<true, true>
                                        : sgd_direction_kernel<true, false>;
  float* m = momentum_buffer.empty() ? nullptr : momentum_buffer.data();
  const RangeSplit range = split_range<kUpdatePack>(
      std::ssize(x), direction.data(), x.data(), m, gradient.data());
  launch(kernel, dim3(grid_for(range.items(kUpdatePack), kThreads)),
         dim3(kThreads), 0, context.stream(), direction.data(), x.data(), m,
         gradient.data(), params, range);
}

}  // namespace syncopate::cuda
