#include "ops/reduce.h"

#include "ops/cpu/cpu_ops.h"
#include "ops/dispatch.h"

namespace syncopate {

double sum_of_squares(Context& context, std::span<const float> x) {
  return on_device(cpu::dot, context, x, x);
}

double dot(Context& context,
           std::span<const float> x,
           std::span<const float> y) {
  CHECK(x.size() == y.size());
  return on_device(cpu::dot, context, x, y);
}

int64_t first_nonfinite(Context& context, std::span<const float> x) {
  return on_device(cpu::first_nonfinite, context, x);
}

}  // namespace syncopate
