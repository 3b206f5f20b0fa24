#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace syncopate {

Schedule::Schedule(const ScheduleOptions& options,
                   double lr,
                   double horizon_steps,
                   double steps_per_epoch)
    : options_(options),
      lr_(lr),
      horizon_(horizon_steps),
      steps_per_epoch_(steps_per_epoch) {}

const std::vector<std::pair<ScheduleKind, std::string>>& schedule_table() {
  using enum ScheduleKind;
  static const std::vector<std::pair<ScheduleKind, std::string>> table = {
      {kConstant, "constant lr"},
      {kMultistep, "lr gamma^k after the k-th milestone"},
      {kCosine, "half a cosine from lr to final_lr at the horizon"},
      {kPolynomial, "final_lr + (lr - final_lr) (1 - t/T)^power"},
      {kOneCycle,
       "low_lr to high_lr and back over the cycle, then to final_lr"},
      {kInverseTime, "lr / (1 + decay_rate * epochs)"},
      {kFields, "from rate to rate between milestones, each in its shape"},
  };
  return table;
}

// The warm-up rises from warmup_from to lr, linearly or by a constant factor
// per step (as in Tensor2Tensor). Schedules with a length (cosine, polynomial,
// one_cycle) run from the end of the warm-up to the horizon; milestones and
// epochs count from the start of training.
double Schedule::rate(double step) const {
  const double warmup = options_.warmup.steps(steps_per_epoch_);
  using enum ScheduleKind;
  if (step < warmup) {
    const double target = options_.kind == kOneCycle ? options_.low_lr : lr_;
    const double from = options_.warmup_from;
    return options_.warmup_shape == WarmupShape::kLinear
               ? from + (target - from) * step / warmup
               : from * std::pow(target / from, step / warmup);
  }
  const double length = std::max(1.0, horizon_ - warmup);
  const double progress = std::min(1.0, (step - warmup) / length);
  const double final_lr = options_.final_lr;

  switch (options_.kind) {
    case kConstant:
      return lr_;
    case kMultistep: {
      const auto passed = std::count_if(
          options_.milestones.begin(), options_.milestones.end(),
          [&](const Length& m) { return step >= m.steps(steps_per_epoch_); });
      return lr_ * std::pow(options_.gamma, static_cast<double>(passed));
    }
    case kCosine:
      return final_lr +
             (lr_ - final_lr) * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case kPolynomial:
      return final_lr +
             (lr_ - final_lr) * std::pow(1 - progress, options_.power);
    case kOneCycle: {
      const double low = options_.low_lr, high = options_.high_lr;
      const double at = step - warmup;
      double cycle = options_.cycle.steps(steps_per_epoch_);
      if (cycle <= 0) cycle = length;
      if (at < cycle / 2) return low + (high - low) * at / (cycle / 2);
      if (at < cycle) return high + (low - high) * (at / (cycle / 2) - 1);
      if (cycle >= length) return final_lr;
      return low +
             (final_lr - low) * std::min(1.0, (at - cycle) / (length - cycle));
    }
    case kInverseTime:
      return lr_ / (1 + options_.decay_rate * step / steps_per_epoch_);
    case kFields:
      return rate_in_fields(step);
  }
  CHECK(false);
}

// Within the stretch from begin to end with rates (left, right), where u is the
// fraction completed, the rate is left + (right - left) u, or left (1 -
// u)^power, or left / (1 + decay_rate epochs), with epochs from the start of
// training. (The "strict" schedule of CHOCO-SGD's code, whose power is 2.)
double Schedule::rate_in_fields(double step) const {
  const std::vector<Length>& milestones = options_.milestones;
  size_t field = 0;
  while (field < milestones.size() &&
         step >= milestones[field].steps(steps_per_epoch_))
    ++field;
  CHECK_MSG(options_.fields.size() == 2 * (milestones.size() + 1),
            "{} rates, {} milestones", options_.fields.size(),
            milestones.size());
  const double left = options_.fields[2 * field];
  const double right = options_.fields[2 * field + 1];
  const FieldShape shape =
      options_.shapes.empty()
          ? FieldShape::kLinear
          : value_named<FieldShape>(options_.shapes[field]).value();
  if (shape == FieldShape::kInverseTime)
    return left / (1 + options_.decay_rate * step / steps_per_epoch_);
  const double begin =
      field == 0 ? 0 : milestones[field - 1].steps(steps_per_epoch_);
  const double end = field < milestones.size()
                         ? milestones[field].steps(steps_per_epoch_)
                         : horizon_;
  const double share =
      end > begin ? std::min(1.0, (step - begin) / (end - begin)) : 1;
  if (shape == FieldShape::kLinear) return left + (right - left) * share;
  return left * std::pow(1 - share, options_.power);
}

}  // namespace syncopate
