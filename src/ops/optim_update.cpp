#include "ops/optim_update.h"

#include "ops/bodies.h"

namespace syncopate {

void sgd_update(Context& context,
                std::span<float> x,
                std::span<float> momentum_buffer,
                std::span<const float> gradient,
                const SgdParams& params) {
  CHECK(gradient.size() == x.size());
  CHECK(params.momentum == 0 || momentum_buffer.size() == x.size());
  bodies_of(context).sgd_update(context, x, momentum_buffer, gradient, params);
}

void sgd_direction(Context& context,
                   std::span<float> direction,
                   std::span<const float> x,
                   std::span<float> momentum_buffer,
                   std::span<const float> gradient,
                   const SgdParams& params) {
  CHECK(direction.size() == x.size() && gradient.size() == x.size());
  CHECK(params.momentum == 0 || momentum_buffer.size() == x.size());
  bodies_of(context).sgd_direction(context, direction, x, momentum_buffer,
                                   gradient, params);
}

}  // namespace syncopate
