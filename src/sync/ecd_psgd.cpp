// Extrapolation compression D-PSGD (Tang et al. 2018, "Communication
// Compression for Decentralized Training", algorithm 2), t from 1:
//
//   x_new   = sum_j w_ij xhat_j - eta d_i       over neighbours and itself
//   z_i     = (1 - t/2) x_i + (t/2) x_new
//   q_i     = Q(z_i)                            to all neighbours
//   xhat_j <- (1 - 2/t) xhat_j + (2/t) q_j
//   x_i    <- x_new
//
// The paper's Q is unbiased, as random_k is without compress.biased. Of
// messages that are sparse and biased, xhat_j takes the coordinates that they
// have and keeps the others, as in the CHOCO-SGD code.
//
// xhat_j, a worker's estimate of each neighbour and everyone's estimate of the
// worker itself, starts as x_0. Sending the q_j overlaps with the next step's
// computation.
#include "ops/elementwise.h"
#include "sync/gossip_base.h"
#include "sync/kinds.h"

namespace syncopate {
namespace {

class EcdPsgd final : public CompressedGossip {
 public:
  explicit EcdPsgd(const SchemeParts& parts)
      : CompressedGossip(parts),
        is_zero_unless_sent_(parts.sync.compress.kind == "random_k" &&
                             !parts.sync.compress.biased) {
    const auto add = [&](float weight, std::span<float> xhat) {
      xhat_.push_back(xhat);
      mixing_.push_back({weight, xhat});
    };
    const Drawn weights = drawn(1);
    add(1 + weights.own, keep_range(Owner::kWorker, "xhat"));
    for (int j = 0; j < degree(); ++j)
      add(weights.neighbours[j], keep_copy_of(j));
  }

  void enter() override {
    CompressedGossip::enter();
    for (const std::span<float> xhat : xhat_)
      combine(context(), xhat, {{1, replica().parameters}});
  }

  void update(const StepPlan& plan) override {
    const std::span<float> x = replica().parameters.write();
    const std::span<float> x_new = direction(params_of(plan));
    receive();
    add_terms(context(), x_new, static_cast<float>(-plan.rate), mixing_);
    // z overwrites x and is encoded immediately.
    const double half_t = static_cast<double>(round() + 1) / 2;
    combine(context(), x,
            {{static_cast<float>(1 - half_t), x},
             {static_cast<float>(half_t), x_new}});
    send(x);
    combine(context(), x, {{1, x_new}});
  }

 private:
  void take_in() override {
    take_in(xhat_[0], own());
    for (int j = 0; j < degree(); ++j) take_in(xhat_[1 + j], from(j));
  }

  void take_in(std::span<float> xhat, Q q) {
    const double share = 2.0 / static_cast<double>(round());
    if (is_zero_unless_sent_)
      scale(context(), xhat, static_cast<float>(1 - share));
    blend(xhat, q, is_zero_unless_sent_ ? 1 : 1 - share, share);
  }

  const bool is_zero_unless_sent_;      // a coordinate of q_j
  std::vector<std::span<float>> xhat_;  // its own, then by neighbour
  std::vector<Term> mixing_;            // sum_j w_ij xhat_j
};

}  // namespace

SchemeInfo ecd_psgd_scheme() {
  return {.keyword = "ecd_psgd",
          .description =
              "gossip with copies of neighbours, updated by compressed "
              "extrapolations",
          .make = &make<EcdPsgd>,
          .check = &check_compression,
          .planned_bytes = &compressed_gossip_bytes,
          .uses_topology = true,
          .uses_compressor = true,
          .uses_collectives = true,
          .is_fragile = true};
}

}  // namespace syncopate
