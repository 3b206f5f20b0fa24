#include "sync/deep_squeeze.h"

namespace syncopate {

DeepSqueeze::DeepSqueeze(const SchemeParts& parts)
    : CompressedGossip(parts), error_(keep_range(Owner::kWorker, "error")) {}

void DeepSqueeze::enter() {
  CompressedGossip::enter();
  fill_zero(error_);
}

void DeepSqueeze::update(const StepPlan& plan) {
  step_locally(plan);
  combine(context(), error_, {{1, error_}, {1, replica().parameters}});
  send(error_);
  blend(error_, own(), 1, -1);
  receive();
}

void DeepSqueeze::take_in() {
  const std::span<float> x = replica().parameters;
  const double gamma = parts_.sync.choco.gamma;
  blend(x, own(), 1, gamma * (self_weight_ - 1));
  for (int j = 0; j < degree(); ++j)
    blend(x, from(j), 1, gamma * neighbours_[j].weight);
}

void check_deep_squeeze(const SchemeRequest& request) {
  check_contraction(request, "deep_squeeze");
}

}  // namespace syncopate
