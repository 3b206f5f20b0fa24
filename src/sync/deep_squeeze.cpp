#include "sync/deep_squeeze.h"

namespace syncopate {

DeepSqueeze::DeepSqueeze(const SchemeParts& parts)
    : CompressedGossip(parts),
      error_(parts.context.device(),
             parts.context.stream(),
             parts.replica.parameters.size()) {}

void DeepSqueeze::enter() {
  CompressedGossip::enter();
  context().device().fill_zero(error_.data(), error_.size() * 4,
                               context().stream());
}

void DeepSqueeze::update(const StepPlan& plan) {
  step_locally(plan);
  combine(context(), error_, {{1, error_}, {1, replica().parameters}});
  send(error_);
  blend_own(error_, 1, -1);
  receive();
}

void DeepSqueeze::take_in() {
  const std::span<float> x = replica().parameters;
  const double gamma = parts_.sync.choco.gamma;
  blend_own(x, 1, gamma * (self_weight_ - 1));
  for (int j = 0; j < degree(); ++j)
    blend(x, j, 1, gamma * neighbours_[j].weight);
}

void DeepSqueeze::visit_state(StateVisitor& visitor) {
  CompressedGossip::visit_state(visitor);
  visitor.visit_device_range(Owner::kWorker, "error", parts_.model.parameters(),
                             error_);
}

std::unique_ptr<Scheme> make_deep_squeeze(const SchemeParts& parts) {
  return std::make_unique<DeepSqueeze>(parts);
}

std::string deep_squeeze_obstacle(const SchemeRequest& request) {
  return contraction_obstacle(request, "deep_squeeze");
}

}  // namespace syncopate
