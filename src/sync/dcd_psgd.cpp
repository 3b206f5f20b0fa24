#include "sync/dcd_psgd.h"

namespace syncopate {

DcdPsgd::DcdPsgd(const SchemeParts& parts) : CompressedGossip(parts) {
  const DeviceVector<float>& x = parts.replica.parameters;
  mixing_.push_back({static_cast<float>(self_weight_ - 1), x});
  for (const Neighbour& neighbour : neighbours_) {
    xhat_.emplace_back(parts.context.device(), parts.context.stream(),
                       x.size());
    mixing_.push_back({static_cast<float>(neighbour.weight), xhat_.back()});
  }
}

void DcdPsgd::enter() {
  CompressedGossip::enter();
  for (const DeviceVector<float>& xhat : xhat_)
    combine(context(), xhat, {{1, replica().parameters}});
}

void DcdPsgd::update(const StepPlan& plan) {
  const std::span<float> d = direction(plan);
  receive();
  add_terms(context(), d, static_cast<float>(-plan.rate), mixing_);
  send(d);
  blend_own(replica().parameters, 1, 1);
}

void DcdPsgd::take_in() {
  for (int j = 0; j < degree(); ++j) blend(xhat_[j], j, 1, 1);
}

void DcdPsgd::visit_state(StateVisitor& visitor) {
  CompressedGossip::visit_state(visitor);
  for (int j = 0; j < degree(); ++j)
    visitor.visit_device_range(Owner::kWorker,
                               fmt::format("xhat_of_{}", neighbour_ranks_[j]),
                               parts_.model.parameters(), xhat_[j]);
}

std::unique_ptr<Scheme> make_dcd_psgd(const SchemeParts& parts) {
  return std::make_unique<DcdPsgd>(parts);
}

}  // namespace syncopate
