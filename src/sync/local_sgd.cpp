// Local SGD: H local steps on each worker, then a mean.
//
//   x_i <- optimizer_i(x_i, g_i)                 H times, own optimizer state
//   average:   x_i <- mean of x                  (Stich 2019)
//   momentum:  d = x_start - mean of x           x_start: at the round's start
//              v <- mu v + d
//              x_i <- x_start - eta v            or Nesterov: eta (d + mu v)
//
// The second is the outer optimizer of DiLoCo (Douillard et al. 2023, algorithm
// 1) and, without Nesterov, SlowMo (Wang et al. 2020) with a constant local
// rate. Before local_sgd.start, gradients are averaged at each step (post-local
// SGD, Lin et al. 2020). BatchNorm's running statistics are averaged together
// with the parameters, or stay local.
#include "keys/key.h"
#include "ops/combine.h"
#include "ops/elementwise.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"
#include "sync/scheme_base.h"

namespace syncopate {
namespace {

class LocalSgd final : public SchemeBase {
 public:
  explicit LocalSgd(const SchemeParts& parts)
      : SchemeBase(parts,
                   lockstep_in_rounds(parts, parts.sync.local_sgd.steps),
                   {}),
        options_(parts.sync.local_sgd) {
    keep(Owner::kShared, "steps_in_round", steps_in_round_);
    if (options_.outer != OuterStep::kMomentum) return;
    start_ = keep_range(Owner::kShared, "round_start");
    velocity_ = keep_range(Owner::kShared, "outer_velocity");
  }

  StepPlan next(const StepRequest& mine) override {
    const StepPlan plan = SchemeBase::next(mine);
    is_together_ =
        !plan.stop &&
        static_cast<double>((plan.worker_steps - parts_.began_at) / size()) <
            options_.start.steps(parts_.steps_per_epoch);
    return plan;
  }

  void gradient_ready(const Bucket& bucket, const StepPlan&) override {
    if (!is_together_ || size() == 1) return;
    weigh_by_samples(parts_, bucket);
    start_sum(bucket, false, averaged_buffers(options_.batchnorm));
  }

  void update(const StepPlan& plan) override {
    if (is_together_) {
      if (size() > 1) finish_sums(world_, averaged_buffers(options_.batchnorm));
      return step_locally(params_of(plan, 1.0 / size()));
    }
    if (!start_.empty() && steps_in_round_ == 0)
      combine(context(), start_, {{1, replica().parameters}});
    step_locally(plan);
    ++steps_in_round_;
  }

  void end_step(const StepPlan&) override {
    if (steps_in_round_ < options_.steps) return;
    steps_in_round_ = 0;
    average(world_, {{replica().parameters.write()},
                     {averaged_buffers(options_.batchnorm)}});
    if (!start_.empty()) outer_step();
  }

 private:
  void outer_step() {
    const std::span<float> x = replica().parameters.write();
    const std::span<float> d = replica().gradients;  // no longer needed
    const auto eta = static_cast<float>(options_.outer_lr);
    const auto mu = static_cast<float>(options_.outer_momentum);
    combine(context(), d, {{1, start_}, {-1, x}});
    combine(context(), velocity_, {{mu, velocity_}, {1, d}});
    if (options_.outer_nesterov)
      combine(context(), x, {{1, start_}, {-eta, d}, {-eta * mu, velocity_}});
    else
      combine(context(), x, {{1, start_}, {-eta, velocity_}});
  }

  LocalSgdOptions options_;
  bool is_together_ = false;           // this step averages gradients
  int64_t steps_in_round_ = 0;         // a boundary may fall within a round
  std::span<float> start_, velocity_;  // of the outer optimizer; empty: none
};

void check_local_sgd(const SchemeRequest& request) {
  if (request.sync.local_sgd.steps < 1)
    fail(ExitCode::kBadInput, "local_sgd.steps: {}, expected 1 or more",
         request.sync.local_sgd.steps);
  // Averaging a few steps changes parameters by less than bf16 resolves.
  refuse_bf16(request, "local_sgd",
              "would round small changes of parameters away");
}

Keys local_sgd_keys() {
  const std::vector<UsedWhen> with_momentum = {
      {"local_sgd.outer", {"momentum"}}};
  return within(
      &SyncOptions::local_sgd,
      {
          {.name = "local_sgd.steps",
           .place = &LocalSgdOptions::steps,
           .doc = "Local steps between two averages.",
           .low = 1},
          {.name = "local_sgd.outer",
           .place = &LocalSgdOptions::outer,
           .doc = "How the workers' models are combined: by their average, "
                  "or by a step of an outer optimizer towards it."},
          {.name = "local_sgd.outer_lr",
           .place = &LocalSgdOptions::outer_lr,
           .doc = "Rate of the outer step; DiLoCo takes 0.7, with momentum "
                  "0.9 in Nesterov's form.",
           .low = 0,
           .is_low_open = true,
           .used_when = with_momentum},
          {.name = "local_sgd.outer_momentum",
           .place = &LocalSgdOptions::outer_momentum,
           .doc = "Momentum of the outer step.",
           .low = 0,
           .high = 1,
           .is_high_open = true,
           .used_when = with_momentum},
          {.name = "local_sgd.outer_nesterov",
           .place = &LocalSgdOptions::outer_nesterov,
           .doc = "Nesterov's form of the outer momentum.",
           .used_when = with_momentum},
          {.name = "local_sgd.start",
           .place = &LocalSgdOptions::start,
           .doc = "Length of an initial part, from the start of the scheme or "
                  "its phase, in which gradients are averaged every step "
                  "(post-local SGD).",
           .low = 0},
          {.name = "local_sgd.batchnorm",
           .place = &LocalSgdOptions::batchnorm,
           .doc =
               "Running statistics of BatchNorm: averaged with the parameters, "
               "or each worker's own.",
           .used_when = {{"model.family", {}, "batchnorm"}}},
      });
}

std::optional<double> local_sgd_bytes(const TrafficPlan& plan) {
  const LocalSgdOptions& options = plan.request.sync.local_sgd;
  if (options.start.value > 0) return std::nullopt;
  return plan.all_reduce(plan.N, plan.with_buffers(options.batchnorm),
                         Wire::kF32) /
         static_cast<double>(options.steps);
}

std::string note_on_start(const SchemeRequest& request) {
  const Length& start = request.sync.local_sgd.start;
  const auto steps = static_cast<double>(request.total_steps);
  if (start.value == 0 || start.steps(request.steps_per_epoch) < steps)
    return "";
  return fmt::format(
      "local_sgd.start is not before the end of this run ({} steps): gradients "
      "are averaged at every step",
      request.total_steps);
}

}  // namespace

SchemeInfo local_sgd_scheme() {
  return {.keyword = "local_sgd",
          .description = "several local steps, then an average of parameters",
          .make = &make<LocalSgd>,
          .check = &check_local_sgd,
          .note = &note_on_start,
          .keys = &local_sgd_keys,
          .planned_bytes = &local_sgd_bytes,
          .reduces_ranges = true,
          .uses_collectives = true,
          .steps_of_round = [](const SyncOptions& sync) {
            return sync.local_sgd.steps;
          }};
}

}  // namespace syncopate
