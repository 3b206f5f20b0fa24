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
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/gossip_base.h"

namespace syncopate {

class DcdPsgd final : public CompressedGossip {
 public:
  explicit DcdPsgd(const SchemeParts& parts);
  void enter() override;
  void update(const StepPlan& plan) override;

 private:
  void take_in() override;

  std::vector<std::span<float>> xhat_;  // by neighbour
  std::vector<Term> mixing_;            // x_half - x_i + eta d_i
};

}  // namespace syncopate
