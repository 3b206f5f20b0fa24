// Learning-rate schedules: pure functions of progress over a horizon that has
// its own key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/choice.h"
#include "keys/length.h"

namespace syncopate {

struct Key;

CHOICE(ScheduleKind,
       "constant multistep cosine polynomial one_cycle inverse_time fields",
       {kConstant, kMultistep, kCosine, kPolynomial, kOneCycle, kInverseTime,
        kFields});
CHOICE(WarmupShape, "linear exponential", {kLinear, kExponential});
CHOICE(FieldShape,
       "linear polynomial inverse_time",
       {kLinear, kPolynomial, kInverseTime});

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  Length horizon{};        // 0: the length of the run
  Length warmup{};         // from warmup_from to lr; 0: none
  double warmup_from = 0;  // rate at the start of the warm-up
  WarmupShape warmup_shape = WarmupShape::kLinear;
  std::vector<Length> milestones{};  // multistep, fields: ascending
  double gamma = 0.1;                // multistep: factor at each milestone
  double power = 1;                  // polynomial: lr (1 - t/T)^power + final
  double final_lr = 0;    // cosine, polynomial, one_cycle: at the end
  double low_lr = 0.15;   // one_cycle: where it starts
  double high_lr = 3;     // one_cycle: its peak
  Length cycle{};         // one_cycle: up and down; 0: the horizon
  double decay_rate = 1;  // inverse_time: lr / (1 + rate t), t in epochs
  // fields: rates at both ends of each stretch between milestones, and the
  // shape of the curve between them (empty: linear everywhere).
  std::vector<double> fields{};
  std::vector<std::string> shapes{};  // names of FieldShape
};

class Schedule {
 public:
  // `lr` is the scaled rate (Optimizer's lr_eff). Lengths are in steps.
  Schedule(const ScheduleOptions& options,
           double lr,
           double horizon_steps,
           double steps_per_epoch);
  // `step` is worker_steps / N: the work done before this step.
  double rate(double step) const;

 private:
  double rate_in_fields(double step) const;

  ScheduleOptions options_;
  double lr_, horizon_, steps_per_epoch_;
};

// One-line descriptions, for `list schedules`.
const std::vector<std::pair<ScheduleKind, std::string>>& schedule_table();
std::vector<Key> schedule_keys();  // of [schedule]

}  // namespace syncopate
