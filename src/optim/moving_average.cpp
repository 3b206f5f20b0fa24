#include "optim/moving_average.h"

#include <algorithm>

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
  const auto old = static_cast<float>(decay_);
  const auto young = static_cast<float>(1 - decay_);
  combine(context_, parameters_, {{old, parameters_}, {young, parameters}});
  combine(context_, buffers_, {{old, buffers_}, {young, buffers}});
}

}  // namespace syncopate
