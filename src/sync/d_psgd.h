// Decentralised parallel SGD, adapt then combine (Lian et al. 2017; the order
// of steps as in the CHOCO-SGD code):
//
//   x_i <- x_i - eta d_i
//   x_i <- sum_j w_ij x_j               over the neighbours and itself
//
// What is sent is x_j or, with sync.wire = bf16, x_j rounded to b_j; then x_i
// <- x_i + sum_j w_ij (b_j - b_i), which preserves the mean over all workers
// and loses no small step to rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/gossip_base.h"

namespace syncopate {

class DPsgd final : public GossipBase {
 public:
  explicit DPsgd(const SchemeParts& parts);
  void update(const StepPlan& plan) override;

 private:
  NeighbourExchange exchange_;
  std::vector<Term> mixing_;  // what is added to x
};

std::optional<double> d_psgd_bytes(const TrafficPlan& plan);

}  // namespace syncopate
