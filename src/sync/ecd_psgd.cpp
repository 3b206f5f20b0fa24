#include "sync/ecd_psgd.h"

namespace syncopate {

EcdPsgd::EcdPsgd(const SchemeParts& parts) : CompressedGossip(parts) {
  const auto add = [&](double weight) {
    xhat_.emplace_back(parts.context.device(), parts.context.stream(),
                       parts.replica.parameters.size());
    mixing_.push_back({static_cast<float>(weight), xhat_.back()});
  };
  add(self_weight_);
  for (const Neighbour& neighbour : neighbours_) add(neighbour.weight);
}

void EcdPsgd::enter() {
  CompressedGossip::enter();
  for (const DeviceVector<float>& xhat : xhat_)
    combine(context(), xhat, {{1, replica().parameters}});
}

void EcdPsgd::update(const StepPlan& plan) {
  const std::span<float> x = replica().parameters;
  const std::span<float> x_new = direction(plan);
  receive();
  add_terms(context(), x_new, static_cast<float>(-plan.rate), mixing_);
  // z overwrites x and is encoded at once.
  const double half_t = static_cast<double>(round() + 1) / 2;
  combine(context(), x,
          {{static_cast<float>(1 - half_t), x},
           {static_cast<float>(half_t), x_new}});
  send(x);
  combine(context(), x, {{1, x_new}});
}

void EcdPsgd::take_in() {
  const double share = 2.0 / static_cast<double>(round());
  blend_own(xhat_[0], 1 - share, share);
  for (int j = 0; j < degree(); ++j) blend(xhat_[1 + j], j, 1 - share, share);
}

void EcdPsgd::visit_state(StateVisitor& visitor) {
  CompressedGossip::visit_state(visitor);
  const ParameterTable& table = parts_.model.parameters();
  visitor.visit_device_range(Owner::kWorker, "xhat", table, xhat_[0]);
  for (int j = 0; j < degree(); ++j)
    visitor.visit_device_range(Owner::kWorker,
                               fmt::format("xhat_of_{}", neighbour_ranks_[j]),
                               table, xhat_[1 + j]);
}

std::unique_ptr<Scheme> make_ecd_psgd(const SchemeParts& parts) {
  return std::make_unique<EcdPsgd>(parts);
}

}  // namespace syncopate
