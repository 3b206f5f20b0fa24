#include "ops/reduce.h"

#include "ops/bodies.h"

namespace syncopate {

double dot(Context& context,
           std::span<const float> x,
           std::span<const float> y) {
  CHECK(x.size() == y.size());
  return bodies_of(context).dot(context, x, y);
}

int64_t first_nonfinite(Context& context, std::span<const float> x) {
  return bodies_of(context).first_nonfinite(context, x);
}

uint64_t digest(Context& context, std::span<const float> x) {
  return bodies_of(context).digest(context, x);
}

void clip_factor(Context& context,
                 float* factor,
                 std::span<const float> gradient,
                 double scale,
                 double limit,
                 const TouchedBlocks& touched) {
  CHECK_MSG(scale > 0 && limit > 0, "scale {}, limit {}", scale, limit);
  CHECK(touched.marks == nullptr || touched.begin == gradient.data());
  bodies_of(context).clip_factor(context, factor, gradient, scale, limit,
                                 touched);
}

}  // namespace syncopate
