// CHOCO-SGD (Koloskova et al. 2019, 2020), in the order of its published code,
// which overlaps a round of messages with the next step:
//
//   x_i    <- x_i - eta d_i
//   x_i    <- x_i + gamma c_i                   gossip with public copies
//   q_i     = Q(x_i - xhat_i)                   to all neighbours
//   xhat_i <- xhat_i + q_i
//   c_i    <- c_i + sum_j w_ij (q_j - q_i)      over neighbours
//
// xhat_i, the public copy of x_i, starts at 0; so does c_i, which equals sum_j
// w_ij (xhat_j - xhat_i): the published code uses s_i - xhat_i instead, with
// s_i = sum_j w_ij xhat_j. The last two lines run before the next gossip, once
// the q_j have arrived. gamma = sync.choco.gamma. W must be constant.
//
// The c_i of all workers must add up to 0, or every step would move the mean of
// all models by gamma times their mean. Rounding errors would not cancel and,
// with residuals that settle, accumulate. Each w_ij q_j is therefore rounded to
// a multiple of kUnit, identically where it is added and where it is
// subtracted, and the sums are exact up to |c_i| = 2^24 kUnit.
#include <cmath>
#include <map>

#include "ops/reduce.h"
#include "sync/gossip_base.h"
#include "sync/kinds.h"

namespace syncopate {
namespace {

class Choco final : public CompressedGossip {
 public:
  explicit Choco(const SchemeParts& parts)
      : CompressedGossip(parts),
        xhat_(keep_range(Owner::kWorker, "xhat")),
        c_(keep_range(Owner::kWorker, "c")) {
    for (const Neighbour& neighbour : neighbours_)
      ++num_neighbours_[neighbour.weight];
  }

  void enter() override {
    CompressedGossip::enter();
    fill_zero(c_);
    // At the start of a run all copies are zero, as in the paper. A later phase
    // finds replicas equal, which zeros would drive apart: the first messages
    // would be of the models themselves, and compressed differently by each
    // worker.
    if (parts_.began_at > 0)
      combine(context(), xhat_, {{1, replica().parameters}});
    else
      fill_zero(xhat_);
  }

  void update(const StepPlan& plan) override {
    const std::span<float> difference = replica().gradients;  // done with
    const auto gamma = static_cast<float>(parts_.sync.choco.gamma);
    step_locally(plan);
    receive();
    const std::span<float> x = replica().parameters.write();
    combine(context(), x, {{1, x}, {gamma, c_}});
    combine(context(), difference, {{1, x}, {-1, xhat_}});
    send(difference);
  }

  std::vector<SeriesInfo> series() const override {
    return {{.name = "public_copy_distance",
             .unit = "1",
             .description = "Euclidean distance between a worker's parameters "
                            "and what its neighbours know of them, after the "
                            "last round"}};
  }

  std::vector<double> take_series() override {
    const std::span<float> difference = replica().gradients;
    combine(context(), difference, {{1, xhat_}});
    if (is_under_way()) blend(difference, own(), 1, 1);
    combine(context(), difference,
            {{1, replica().parameters}, {-1, difference}});
    return {std::sqrt(dot(context(), difference, difference))};
  }

 private:
  // After many rounds c is off by a few units, and so are models from each
  // other. Parts of messages below half a unit are lost, so updates of that
  // size (Adam with a rate below 1e-6) are hardly gossiped. Residuals up to 0.5
  // add up exactly.
  static constexpr float kUnit = 0x1p-25f;

  void take_in() override {
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

  std::span<float> xhat_, c_;
  std::map<double, int> num_neighbours_;  // by weight
};

}  // namespace

SchemeInfo choco_scheme() {
  return {.keyword = "choco",
          .description =
              "gossip of compressed differences to public copies, "
              "during the next step",
          .make = &make<Choco>,
          .check =
              [](const SchemeRequest& request) {
                check_contraction(request, "choco");
              },
          .keys = &choco_keys,
          .planned_bytes = &compressed_gossip_bytes,
          .uses_topology = true,
          .uses_compressor = true,
          .uses_collectives = true};
}

}  // namespace syncopate
