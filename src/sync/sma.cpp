#include "sync/sma.h"

#include "keys/key.h"
#include "ops/combine.h"
#include "sync/planned_bytes.h"

namespace syncopate {
namespace {

DeviceVector<float> range_of(const SchemeParts& parts) {
  return {parts.context.device(), parts.context.stream(),
          parts.replica.parameters.size()};
}

}  // namespace

Sma::Sma(const SchemeParts& parts)
    : SchemeBase(parts, lockstep(parts, 1), {}),
      centre_(range_of(parts)),
      last_(range_of(parts)),
      pull_(range_of(parts)) {}

void Sma::enter() {
  combine(context(), centre_, {{1, replica().parameters}});
  combine(context(), last_, {{1, centre_}});
}

void Sma::update(const StepPlan& plan) {
  const std::span<float> x = replica().parameters;
  const float alpha = 1 / static_cast<float>(size());
  const auto mu = static_cast<float>(parts_.sync.sma.momentum);
  combine(context(), pull_, {{alpha, x}, {-alpha, centre_}});
  step_locally(plan);
  combine(context(), x, {{1, x}, {-1, pull_}});
  average(world_, {{pull_}});
  combine(
      context(), pull_,
      {{1 + mu, centre_}, {-mu, last_}, {static_cast<float>(size()), pull_}});
  combine(context(), last_, {{1, centre_}});
  combine(context(), centre_, {{1, pull_}});
}

void Sma::evaluation_model(EvalModel which,
                           std::span<float> parameters,
                           std::span<float> buffers) {
  const bool is_centre = which == EvalModel::kCentre;
  SchemeBase::evaluation_model(is_centre ? EvalModel::kAverage : which,
                               parameters, buffers);
  if (is_centre) combine(context(), parameters, {{1, centre_}});
}

void Sma::visit_state(StateVisitor& visitor) {
  SchemeBase::visit_state(visitor);
  const ParameterTable& table = parts_.model.parameters();
  visitor.visit_device_range(Owner::kShared, "centre", table, centre_);
  visitor.visit_device_range(Owner::kShared, "last_centre", table, last_);
}

std::unique_ptr<Scheme> make_sma(const SchemeParts& parts) {
  return std::make_unique<Sma>(parts);
}

Keys sma_keys() {
  return within(&SyncOptions::sma,
                {{.name = "sma.momentum",
                  .place = &SmaOptions::momentum,
                  .doc = "Momentum of the central average model.",
                  .low = 0,
                  .high = 1,
                  .is_high_open = true}});
}

std::optional<double> sma_bytes(const TrafficPlan& plan) {
  return plan.all_reduce(plan.N, plan.D, Wire::kF32);
}

}  // namespace syncopate
