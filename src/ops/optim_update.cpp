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

static void check_adam(std::span<const float> x,
                       std::span<const float> m,
                       std::span<const float> v,
                       std::span<const float> gradient,
                       const AdamParams& params) {
  CHECK(m.size() == x.size() && v.size() == x.size());
  CHECK(gradient.size() == x.size());
  CHECK(params.correction1 > 0 && params.correction2 > 0);
  CHECK(params.lazy_row == 0 || (std::ssize(x) % params.lazy_row == 0 &&
                                 params.copies.num_entries == 0));
}

void adam_update(Context& context,
                 std::span<float> x,
                 std::span<float> m,
                 std::span<float> v,
                 std::span<const float> gradient,
                 const AdamParams& params) {
  check_adam(x, m, v, gradient, params);
  bodies_of(context).adam_update(context, x, m, v, gradient, params);
}

void adam_direction(Context& context,
                    std::span<float> direction,
                    std::span<const float> x,
                    std::span<float> m,
                    std::span<float> v,
                    std::span<const float> gradient,
                    const AdamParams& params) {
  check_adam(x, m, v, gradient, params);
  CHECK(direction.size() == x.size());
  bodies_of(context).adam_direction(context, direction, x, m, v, gradient,
                                    params);
}

}  // namespace syncopate
