#include "sync/d_psgd.h"

#include "sync/planned_bytes.h"

namespace syncopate {

DPsgd::DPsgd(const SchemeParts& parts)
    : GossipBase(parts),
      exchange_(parts, parts.replica.parameters, degree(), wire_) {
  mixing_.push_back({static_cast<float>(self_weight_ - 1), exchange_.sent()});
  for (int j = 0; j < degree(); ++j)
    mixing_.push_back(
        {static_cast<float>(neighbours_[j].weight), exchange_.incoming(j)});
}

void DPsgd::update(const StepPlan& plan) {
  step_locally(plan);
  if (size() == 1) return;
  exchange_.start(neighbour_ranks_, neighbour_ranks_);
  times_.add(exchange_.finish());
  add_terms(context(), replica().parameters, 1, mixing_);
}

std::optional<double> d_psgd_bytes(const TrafficPlan& plan) {
  return plan.neighbours() * plan.value_bytes() * static_cast<double>(plan.D);
}

}  // namespace syncopate
