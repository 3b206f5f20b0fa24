#include "cuda/ops.h"
#include "cuda/pack.cuh"
#include "cuda/range.cuh"

namespace syncopate::cuda {

constexpr int kUpdatePack = kPackElems<float>;

// Multiplications and additions are joined by hand, so that an element gets
// the same bits in a pack and alone: a slice updates as the whole range would.
template <bool kHasMomentum, bool kNesterov>
__global__ void sgd_update_kernel(float* x,
                                  float* m,  // not touched without momentum
                                  const float* gradient,
                                  SgdParams params,
                                  RangeSplit range) {
  const float grad_scale = params.clip_factor == nullptr
                               ? params.grad_scale
                               : params.grad_scale * *params.clip_factor;
  for_range<kUpdatePack>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    Elems xs = Elems::load(x + first), ms{};
    const Elems gs = Elems::load(gradient + first);
    if constexpr (kHasMomentum) ms = Elems::load(m + first);
    for (int i = 0; i < width(); ++i) {
      const float old = xs.elem[i];
      float step = fmaf(grad_scale, gs.elem[i], params.weight_decay * old);
      if constexpr (kHasMomentum) {
        const float velocity = fmaf(params.momentum, ms.elem[i], step);
        ms.elem[i] = velocity;
        step = kNesterov ? fmaf(params.momentum, velocity, step) : velocity;
      }
      xs.elem[i] = fmaf(-params.rate, step, old);
    }
    xs.store(x + first);
    if constexpr (kHasMomentum) ms.store(m + first);
  });
}

void sgd_update(Context& context,
                std::span<float> x,
                std::span<float> momentum_buffer,
                std::span<const float> gradient,
                const SgdParams& params) {
  constexpr unsigned kThreads = 256;
  const auto kernel = params.momentum == 0 ? sgd_update_kernel<false, false>
                      : params.nesterov    ? sgd_update_kernel<true, true>
                                           : sgd_update_kernel<true, false>;
  float* m = params.momentum == 0 ? nullptr : momentum_buffer.data();
  const RangeSplit range =
      split_range<kUpdatePack>(std::ssize(x), x.data(), m, gradient.data());
  launch(kernel, dim3(grid_for(range.items(kUpdatePack), kThreads)),
         dim3(kThreads), 0, context.stream(), x.data(), m, gradient.data(),
         params, range);
}

}  // namespace syncopate::cuda
