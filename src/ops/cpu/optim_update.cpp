#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/subnormal.h"

namespace syncopate::cpu {
namespace {

// Updates the momentum and calls put(lanes, i, x, direction) for all elements,
// 16 at a time. Vectors and the tail use the same instructions, so a slice of a
// range gets the same bits as the whole range.
template <bool kHasMomentum, bool kNesterov, typename Put>
void for_directions(Context& context,
                    std::span<const float> parameters,
                    float* m,
                    const float* gradient,
                    const SgdParams& params,
                    const Put& put) {
  const F16 momentum = splat(params.momentum);
  const F16 decay = splat(params.weight_decay);
  const F16 grad_scale = splat(params.clip_factor == nullptr
                                   ? params.grad_scale
                                   : params.grad_scale * *params.clip_factor);
  const float* x = parameters.data();
  parallel_vectors(context, std::ssize(parameters), [&](auto lanes, int64_t i) {
    const F16 old = lanes.get(x + i);
    F16 step = grad_scale * lanes.get(gradient + i) + decay * old;
    if constexpr (kHasMomentum) {
      const F16 velocity =
          zero_if_subnormal(momentum * lanes.get(m + i) + step);
      lanes.put(m + i, velocity);
      step = kNesterov ? step + momentum * velocity : velocity;
    }
    put(lanes, i, old, step);
  });
}

template <bool kHasMomentum, bool kNesterov>
void update(Context& context,
            std::span<float> x,
            float* m,
            const float* gradient,
            const SgdParams& params) {
  const F16 rate = splat(params.rate);
  float* to = x.data();
  for_directions<kHasMomentum, kNesterov>(
      context, x, m, gradient, params,
      [&](auto lanes, int64_t i, const F16& old, const F16& step) {
        lanes.put(to + i, old - rate * step);
      });
}

template <bool kHasMomentum, bool kNesterov>
void direct(Context& context,
            float* direction,
            std::span<const float> x,
            float* m,
            const float* gradient,
            const SgdParams& params) {
  for_directions<kHasMomentum, kNesterov>(
      context, x, m, gradient, params,
      [&](auto lanes, int64_t i, const F16&, const F16& step) {
        lanes.put(direction + i, step);
      });
}

}  // namespace

void sgd_update(Context& context,
                std::span<float> x,
                std::span<float> momentum_buffer,
                std::span<const float> gradient,
                const SgdParams& params) {
  const auto body = momentum_buffer.empty() ? update<false, false>
                    : params.nesterov       ? update<true, true>
                                            : update<true, false>;
  body(context, x, momentum_buffer.data(), gradient.data(), params);
  cpu::copy_weights(context, x, params.copies);
}

void sgd_direction(Context& context,
                   std::span<float> direction,
                   std::span<const float> x,
                   std::span<float> momentum_buffer,
                   std::span<const float> gradient,
                   const SgdParams& params) {
  const auto body = momentum_buffer.empty() ? direct<false, false>
                    : params.nesterov       ? direct<true, true>
                                            : direct<true, false>;
  body(context, direction.data(), x, momentum_buffer.data(), gradient.data(),
       params);
}

}  // namespace syncopate::cpu
