#include "train/run_plan.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "keys/value.h"
#include "train/audit.h"
#include "train/virtual_limit.h"

namespace syncopate {
namespace {

// Products of steps, workers and samples of a step fit into 64 bits.
constexpr double kMostSteps = 1e12;

// Checks lengths of an input and rounds them.
struct Lengths {
  const ParsedInput& input;
  double steps_per_epoch;

  double limited(const char* key, double steps) const {
    if (!(steps <= kMostSteps))
      input.refuse(fmt::format("{}: {:g} steps, expected at most {:g}", key,
                               steps, kMostSteps));
    return steps;
  }
  int64_t whole_steps(const char* key, const Length& length) const {
    return std::llround(limited(key, length.steps(steps_per_epoch)));
  }
  // Lengths may be in steps and in epochs, so only here can they be compared.
  void refuse_unordered(const char* key, const std::vector<Length>& all) const {
    for (size_t i = 1; i < all.size(); ++i)
      if (all[i - 1].steps(steps_per_epoch) >= all[i].steps(steps_per_epoch))
        input.refuse(fmt::format(
            "{}: expected increasing lengths, found {} after {}, with {:g} "
            "steps per epoch",
            key, format_length(all[i]), format_length(all[i - 1]),
            steps_per_epoch));
  }
  void refuse_longer(const char* key,
                     const Length& length,
                     double horizon) const {
    const double steps = length.steps(steps_per_epoch);
    if (steps > horizon * (1 + 1e-9))
      input.refuse(fmt::format(
          "{}: is {}, longer than the schedule's {:g} steps, with {:g} steps "
          "per epoch",
          key, format_length(length), horizon, steps_per_epoch));
  }
  // The cycle begins after the warm-up. Lengths may come from another number of
  // workers, for which only run.steps was rounded.
  void refuse_longer_cycle(const ScheduleOptions& schedule,
                           double horizon) const {
    const double warmup = schedule.warmup.steps(steps_per_epoch);
    const double cycle = schedule.cycle.steps(steps_per_epoch);
    if (cycle > 0 && warmup + cycle > horizon + 0.5)
      input.refuse(fmt::format(
          "schedule.cycle: is {}, which with schedule.warmup = {} is longer "
          "than the schedule's {:g} steps, with {:g} steps per epoch",
          format_length(schedule.cycle), format_length(schedule.warmup),
          horizon, steps_per_epoch));
  }
  // A length that was requested is at least one step, since 0 means never.
  int64_t period(const char* key, const Length& length) const {
    return length.value > 0 ? std::max<int64_t>(1, whole_steps(key, length))
                            : 0;
  }
};

}  // namespace

bool is_length_open(const RunOptions& run) {
  return run.virtual_limit_s > 0 && run.steps == 0;
}

RunPlan make_run_plan(const ParsedInput& input,
                      const Options& options,
                      const Sampler* sampler) {
  RunPlan plan;
  plan.batches_per_epoch = sampler != nullptr ? sampler->batches_per_epoch()
                                              : options.data.accumulate;
  plan.steps_per_epoch = static_cast<double>(plan.batches_per_epoch) /
                         static_cast<double>(options.data.accumulate);
  const double per_epoch = plan.steps_per_epoch;
  const RunOptions& run = options.run;
  const Lengths lengths{input, per_epoch};
  lengths.limited("run.steps", static_cast<double>(run.steps));
  plan.total_steps = run.steps > 0 ? run.steps : INT64_MAX;
  if (is_length_open(run)) plan.total_steps = kMostLimitedSteps;
  if (run.epochs > 0)
    plan.total_steps = std::min<int64_t>(
        plan.total_steps,
        std::max(1.0, std::ceil(lengths.limited("run.epochs",
                                                run.epochs * per_epoch) -
                                1e-9)));
  plan.stop_at = plan.total_steps;
  if (run.stop_at.value > 0)
    plan.stop_at =
        std::min(plan.total_steps, lengths.period("run.stop_at", run.stop_at));
  plan.horizon = options.schedule.horizon.value > 0
                     ? options.schedule.horizon.steps(per_epoch)
                     : static_cast<double>(plan.total_steps);
  if (sampler != nullptr) {  // otherwise nothing is trained
    lengths.refuse_unordered("schedule.milestones",
                             options.schedule.milestones);
    // Without a horizon, a short run of a long recipe is valid.
    if (run.virtual_limit_s == 0 &&
        input.resolved.contains("schedule.horizon")) {
      lengths.refuse_longer("schedule.warmup", options.schedule.warmup,
                            plan.horizon);
      lengths.refuse_longer_cycle(options.schedule, plan.horizon);
    }
  }
  plan.log_every = lengths.period("run.log_every", run.log_every);
  plan.eval_every = lengths.period("eval.every", options.eval.every);
  plan.checkpoint_every =
      lengths.period("checkpoint.every", options.checkpoint.every);
  if (keeps_replicas_equal(options.sync))
    plan.audit_every = lengths.period("run.audit", run.audit);
  return plan;
}

}  // namespace syncopate
