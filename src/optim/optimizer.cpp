#include "optim/optimizer.h"

#include <cmath>

#include "base/text.h"

namespace syncopate {

void Optimizer::apply(Context& context,
                      int64_t offset,
                      std::span<float> x,
                      std::span<const float> gradient,
                      const ApplyParams& params) {
  step(context, {offset, x, x, gradient, true}, params);
}

void Optimizer::direction(Context& context,
                          int64_t offset,
                          std::span<float> direction,
                          std::span<const float> x,
                          std::span<const float> gradient,
                          const ApplyParams& params) {
  CHECK(direction.size() == x.size());
  step(context, {offset, direction, x, gradient, false}, params);
}

double scaled_rate(const OptimizerOptions& options,
                   double batch,
                   int workers,
                   int neighbours) {
  if (options.lr_scale == LrScale::kNone) return options.lr;
  double factor = workers;
  if (options.lr_factor == "graph") factor = neighbours;
  if (const auto number = parse_double(options.lr_factor)) factor = *number;
  const double base =
      options.base_batch > 0 ? static_cast<double>(options.base_batch) : batch;
  const double ratio = factor * batch / base;
  return options.lr *
         (options.lr_scale == LrScale::kSqrt ? std::sqrt(ratio) : ratio);
}

}  // namespace syncopate
