#include "sync/choco.h"

#include <cmath>

#include "keys/key.h"
#include "ops/reduce.h"

namespace syncopate {

Choco::Choco(const SchemeParts& parts)
    : CompressedGossip(parts),
      xhat_(parts.context.device(),
            parts.context.stream(),
            parts.replica.parameters.size()),
      c_(parts.context.device(), parts.context.stream(), xhat_.size()) {
  for (const Neighbour& neighbour : neighbours_)
    ++num_neighbours_[neighbour.weight];
}

void Choco::enter() {
  CompressedGossip::enter();
  for (const std::span<float> copy : {xhat_.span(), c_.span()})
    context().device().fill_zero(copy.data(),
                                 static_cast<int64_t>(copy.size_bytes()),
                                 context().stream());
}

void Choco::update(const StepPlan& plan) {
  const std::span<float> x = replica().parameters;
  const std::span<float> difference = replica().gradients;  // done with
  const auto gamma = static_cast<float>(parts_.sync.choco.gamma);
  step_locally(plan);
  receive();
  combine(context(), x, {{1, x}, {gamma, c_}});
  combine(context(), difference, {{1, x}, {-1, xhat_}});
  send(difference);
}

void Choco::take_in() {
  blend_own(xhat_, 1, 1);
  const std::span<float> weighted = replica().gradients;  // done with
  for (int j = 0; j < degree(); ++j) {
    decode(weighted, j, neighbours_[j].weight);
    add_in_units(context(), c_, 1, weighted, kUnit);
  }
  for (const auto& [weight, neighbours] : num_neighbours_) {
    decode_own(weighted, weight);
    add_in_units(context(), c_, -neighbours, weighted, kUnit);
  }
}

void Choco::visit_state(StateVisitor& visitor) {
  CompressedGossip::visit_state(visitor);
  const ParameterTable& table = parts_.model.parameters();
  visitor.visit_device_range(Owner::kWorker, "xhat", table, xhat_);
  visitor.visit_device_range(Owner::kWorker, "c", table, c_);
}

std::vector<SeriesInfo> Choco::series() const {
  return {{.name = "public_copy_distance",
           .unit = "1",
           .description = "Euclidean distance between a worker's parameters "
                          "and what its neighbours know of them, after the "
                          "last round"}};
}

std::vector<double> Choco::take_series() {
  const std::span<float> difference = replica().gradients;
  combine(context(), difference, {{1, xhat_}});
  if (is_under_way()) blend_own(difference, 1, 1);
  combine(context(), difference, {{1, replica().parameters}, {-1, difference}});
  return {std::sqrt(dot(context(), difference, difference))};
}

std::unique_ptr<Scheme> make_choco(const SchemeParts& parts) {
  return std::make_unique<Choco>(parts);
}

std::string choco_obstacle(const SchemeRequest& request) {
  return contraction_obstacle(request, "choco");
}

Keys choco_keys() {
  return within(&SyncOptions::choco,
                {
                    {.name = "choco.gamma",
                     .place = &ChocoOptions::gamma,
                     .doc = "Consensus step size (choco and deep_squeeze).",
                     .low = 0,
                     .high = 1,
                     .is_low_open = true},
                });
}

}  // namespace syncopate
