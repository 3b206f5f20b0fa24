#include "sync/dcd_psgd.h"

namespace syncopate {

DcdPsgd::DcdPsgd(const SchemeParts& parts) : CompressedGossip(parts) {
  mixing_.push_back(
      {static_cast<float>(self_weight_ - 1), replica().parameters});
  for (int j = 0; j < degree(); ++j) {
    xhat_.push_back(keep_copy_of(j));
    mixing_.push_back({static_cast<float>(neighbours_[j].weight), xhat_[j]});
  }
}

void DcdPsgd::enter() {
  CompressedGossip::enter();
  for (const std::span<float> xhat : xhat_)
    combine(context(), xhat, {{1, replica().parameters}});
}

void DcdPsgd::update(const StepPlan& plan) {
  const std::span<float> d = direction(params_of(plan));
  receive();
  add_terms(context(), d, static_cast<float>(-plan.rate), mixing_);
  send(d);
  blend(replica().parameters, own(), 1, 1);
}

void DcdPsgd::take_in() {
  for (int j = 0; j < degree(); ++j) blend(xhat_[j], from(j), 1, 1);
}

}  // namespace syncopate
