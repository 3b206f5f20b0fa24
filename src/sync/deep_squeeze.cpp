// DeepSqueeze (Tang et al. 2019): gossip of error-compensated models.
//
//   x_i <- x_i - eta d_i
//   v    = e_i + x_i
//   q_i  = Q(v)                                 to all neighbours
//   e_i <- v - q_i
//   x_i <- x_i + gamma sum_j (w_ij - [i = j]) q_j
//
// e_i starts at 0. The worker waits for the q_j. gamma = sync.choco.gamma.
#include "sync/gossip_base.h"
#include "sync/kinds.h"

namespace syncopate {
namespace {

class DeepSqueeze final : public CompressedGossip {
 public:
  explicit DeepSqueeze(const SchemeParts& parts)
      : CompressedGossip(parts),
        error_(keep_range(Owner::kWorker, "error")),
        weights_(drawn(parts.sync.choco.gamma)) {}

  void enter() override {
    CompressedGossip::enter();
    fill_zero(error_);
  }

  void update(const StepPlan& plan) override {
    step_locally(plan);
    combine(context(), error_, {{1, error_}, {1, replica().parameters}});
    send(error_);
    blend(error_, own(), 1, -1);
    receive();
  }

 private:
  void take_in() override {
    const std::span<float> x = replica().parameters.write();
    blend(x, own(), 1, weights_.own);
    for (int j = 0; j < degree(); ++j)
      blend(x, from(j), 1, weights_.neighbours[j]);
  }

  std::span<float> error_;  // e
  Drawn weights_;           // gamma (w_ij - [i = j])
};

}  // namespace

SchemeInfo deep_squeeze_scheme() {
  return {.keyword = "deep_squeeze",
          .description = "gossip of compressed models with error feedback",
          .make = &make<DeepSqueeze>,
          .check =
              [](const SchemeRequest& request) {
                check_contraction(request, "deep_squeeze");
              },
          .keys = &choco_keys,
          .defaults = {{"choco.gamma", "0.2"}},
          .planned_bytes = &compressed_gossip_bytes,
          .uses_topology = true,
          .uses_compressor = true,
          .uses_collectives = true};
}

}  // namespace syncopate
