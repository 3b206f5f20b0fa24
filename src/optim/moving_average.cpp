#include "optim/moving_average.h"

#include <algorithm>
#include <utility>

#include "ops/combine.h"

namespace syncopate {

MovingAverage::MovingAverage(Context& context,
                             int64_t parameters,
                             int64_t buffers,
                             double decay,
                             int64_t every,
                             double warmup_steps)
    : context_(context),
      parameters_(context.device(), context.stream(), parameters),
      buffers_(context.device(), context.stream(), buffers),
      decay_(decay),
      every_(every),
      warmup_steps_(warmup_steps) {}

void MovingAverage::start(std::span<const float> parameters,
                          std::span<const float> buffers) {
  copy(parameters, buffers);
  updates_ = 0;
}

void MovingAverage::copy(std::span<const float> parameters,
                         std::span<const float> buffers) {
  combine(context_, parameters_, {{1, parameters}});
  combine(context_, buffers_, {{1, buffers}});
}

void MovingAverage::update(int64_t steps_done,
                           int64_t schedule_steps,
                           std::span<const float> parameters,
                           std::span<const float> buffers) {
  if (steps_done % every_ != 0) return;
  if (updates_ == kUnknown) updates_ = steps_done > every_ ? 1 : 0;
  // The schedule's step of the last update, counted from 0, had this worker
  // taken all steps since.
  const int64_t last = schedule_steps - every_ - 1;
  if (updates_++ == 0 ||
      static_cast<double>(std::max<int64_t>(last, 0)) < warmup_steps_)
    return copy(parameters, buffers);
  // Rounded to floats, decay and 1 - decay do not add up to 1, and the average
  // of a constant would drift. So this adds a share of the difference to what
  // has the larger weight.
  const auto share = static_cast<float>(std::min(decay_, 1 - decay_));
  const auto update_one = [&](std::span<float> average,
                              std::span<const float> values) {
    std::span<const float> most = average, least = values;
    if (decay_ < 0.5) std::swap(most, least);
    combine(context_, average, {{share, least}, {-share, most}, {1, most}});
  };
  update_one(parameters_, parameters);
  update_one(buffers_, buffers);
}

}  // namespace syncopate
