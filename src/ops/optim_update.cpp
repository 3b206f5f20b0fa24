#include "ops/optim_update.h"

#include "ops/cpu/cpu_ops.h"
#include "ops/dispatch.h"

namespace syncopate {

void sgd_update(Context& context,
                std::span<float> x,
                std::span<float> momentum_buffer,
                std::span<const float> gradient,
                const SgdParams& params) {
  CHECK(gradient.size() == x.size());
  CHECK(params.momentum == 0 || momentum_buffer.size() == x.size());
  on_device(cpu::sgd_update, context, x, momentum_buffer, gradient, params);
}

}  // namespace syncopate
