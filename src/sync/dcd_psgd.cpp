// Difference compression D-PSGD (Tang et al. 2018, "Communication Compression
// for Decentralized Training", algorithm 1):
//
//   x_half  = sum_j w_ij xhat_j - eta d_i       over neighbours and itself
//   q_i     = Q(x_half - x_i)                   to all neighbours
//   xhat_j <- xhat_j + q_j
//   x_i    <- xhat_i
//
// xhat_j, a copy of each neighbour's x_j, starts as x_0; a worker's own copy is
// x_i itself. Sending the q_j overlaps with the next step's computation.
#include "sync/gossip_base.h"
#include "sync/kinds.h"

namespace syncopate {
namespace {

class DcdPsgd final : public CompressedGossip {
 public:
  explicit DcdPsgd(const SchemeParts& parts) : CompressedGossip(parts) {
    const Drawn weights = drawn(1);
    mixing_.push_back({weights.own, replica().parameters});
    for (int j = 0; j < degree(); ++j) {
      xhat_.push_back(keep_copy_of(j));
      mixing_.push_back({weights.neighbours[j], xhat_[j]});
    }
  }

  void enter() override {
    CompressedGossip::enter();
    for (const std::span<float> xhat : xhat_)
      combine(context(), xhat, {{1, replica().parameters}});
  }

  void update(const StepPlan& plan) override {
    const std::span<float> d = direction(params_of(plan));
    receive();
    add_terms(context(), d, static_cast<float>(-plan.rate), mixing_);
    send(d);
    blend(replica().parameters.write(), own(), 1, 1);
  }

 private:
  void take_in() override {
    for (int j = 0; j < degree(); ++j) blend(xhat_[j], from(j), 1, 1);
  }

  std::vector<std::span<float>> xhat_;  // by neighbour
  std::vector<Term> mixing_;            // x_half - x_i + eta d_i
};

}  // namespace

SchemeInfo dcd_psgd_scheme() {
  return {.keyword = "dcd_psgd",
          .description =
              "gossip with copies of neighbours, updated by compressed "
              "differences",
          .make = &make<DcdPsgd>,
          .check = &check_compression,
          .planned_bytes = &compressed_gossip_bytes,
          .uses_topology = true,
          .uses_compressor = true,
          .uses_collectives = true,
          .is_fragile = true};
}

}  // namespace syncopate
