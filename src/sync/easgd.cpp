#include "sync/easgd.h"

#include "keys/key.h"
#include "ops/combine.h"
#include "sync/planned_bytes.h"

namespace syncopate {

Easgd::Easgd(const SchemeParts& parts)
    : SchemeBase(parts, lockstep(parts, parts.sync.easgd.steps), {}),
      centre_(keep_range(Owner::kShared, "centre")),
      mean_(make_range(std::ssize(centre_))) {}

void Easgd::enter() {
  combine(context(), centre_, {{1, replica().parameters}});
}

void Easgd::end_step(const StepPlan& plan) {
  if ((plan.step + 1) % parts_.sync.easgd.steps != 0) return;
  const std::span<float> x = replica().parameters;
  combine(context(), mean_, {{1, x}});
  average(world_, {{mean_}});
  const auto beta = static_cast<float>(parts_.sync.easgd.beta);
  const float alpha = beta / static_cast<float>(size());
  combine(context(), x, {{1 - alpha, x}, {alpha, centre_}});
  combine(context(), centre_, {{1 - beta, centre_}, {beta, mean_}});
}

void Easgd::evaluation_model(EvalModel which,
                             std::span<float> parameters,
                             std::span<float> buffers) {
  const bool is_centre = which == EvalModel::kCentre;
  SchemeBase::evaluation_model(is_centre ? EvalModel::kAverage : which,
                               parameters, buffers);
  if (is_centre) combine(context(), parameters, {{1, centre_}});
}

Keys easgd_keys() {
  return within(
      &SyncOptions::easgd,
      {
          {.name = "easgd.steps",
           .place = &EasgdOptions::steps,
           .doc = "Local steps between two exchanges with the centre.",
           .low = 1},
          {.name = "easgd.beta",
           .place = &EasgdOptions::beta,
           .doc = "Fraction by which the centre moves towards the mean of "
                  "the workers.",
           .low = 0,
           .high = 1,
           .is_low_open = true},
      });
}

std::optional<double> easgd_bytes(const TrafficPlan& plan) {
  return plan.all_reduce(plan.N, plan.D, Wire::kF32) /
         static_cast<double>(plan.request.sync.easgd.steps);
}

}  // namespace syncopate
