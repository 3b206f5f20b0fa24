#include "sync/choco.h"

#include <cmath>

#include "keys/key.h"
#include "ops/reduce.h"

namespace syncopate {

Choco::Choco(const SchemeParts& parts)
    : CompressedGossip(parts),
      xhat_(keep_range(Owner::kWorker, "xhat")),
      c_(keep_range(Owner::kWorker, "c")) {
  for (const Neighbour& neighbour : neighbours_)
    ++num_neighbours_[neighbour.weight];
}

void Choco::enter() {
  CompressedGossip::enter();
  fill_zero(xhat_);
  fill_zero(c_);
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
  blend(xhat_, own(), 1, 1);
  const std::span<float> weighted = replica().gradients;  // done with
  for (int j = 0; j < degree(); ++j) {
    decode(weighted, from(j), neighbours_[j].weight);
    add_in_units(context(), c_, 1, weighted, kUnit);
  }
  for (const auto& [weight, neighbours] : num_neighbours_) {
    decode(weighted, own(), weight);
    add_in_units(context(), c_, -neighbours, weighted, kUnit);
  }
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
  if (is_under_way()) blend(difference, own(), 1, 1);
  combine(context(), difference, {{1, replica().parameters}, {-1, difference}});
  return {std::sqrt(dot(context(), difference, difference))};
}

void check_choco(const SchemeRequest& request) {
  check_contraction(request, "choco");
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
