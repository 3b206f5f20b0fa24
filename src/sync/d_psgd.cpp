// Decentralised parallel SGD, adapt then combine (Lian et al. 2017; the order
// of steps as in the CHOCO-SGD code):
//
//   x_i <- x_i - eta d_i
//   x_i <- sum_j w_ij x_j               over the neighbours and itself
//
// What is sent is x_j or, with sync.wire = bf16, x_j rounded to b_j; then x_i
// <- x_i + sum_j w_ij (b_j - b_i), which preserves the mean over all workers
// and loses no small step to rounding.
#include "sync/gossip_base.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"

namespace syncopate {
namespace {

class DPsgd final : public GossipBase {
 public:
  explicit DPsgd(const SchemeParts& parts)
      : GossipBase(parts),
        exchange_(parts, parts.replica.parameters.write(), degree(), wire_) {
    const Drawn weights = drawn(1);
    mixing_.push_back({weights.own, exchange_.sent()});
    for (int j = 0; j < degree(); ++j)
      mixing_.push_back({weights.neighbours[j], exchange_.incoming(j)});
  }

  void update(const StepPlan& plan) override {
    step_locally(plan);
    if (size() == 1) return;
    exchange_.start(receivers_, neighbour_ranks_);
    times_.add(exchange_.finish());
    add_terms(context(), replica().parameters.write(), 1, mixing_);
  }

  void quiesce() override {
    SchemeBase::quiesce();
    times_.add(exchange_.quiesce());
  }

 private:
  NeighbourExchange exchange_;
  std::vector<Term> mixing_;  // what is added to x
};

std::optional<double> d_psgd_bytes(const TrafficPlan& plan) {
  return plan.neighbours() * plan.value_bytes() * static_cast<double>(plan.D);
}

}  // namespace

SchemeInfo d_psgd_scheme() {
  return {.keyword = "d_psgd",
          .description =
              "decentralised: a local step, then a weighted "
              "average with neighbours",
          .make = &make<DPsgd>,
          .check = &check_topology,
          .planned_bytes = &d_psgd_bytes,
          .uses_topology = true,
          .uses_wire = true,
          .uses_collectives = true};
}

}  // namespace syncopate
