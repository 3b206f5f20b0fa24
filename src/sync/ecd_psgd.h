// Extrapolation compression D-PSGD (Tang et al. 2018, "Communication
// Compression for Decentralized Training", algorithm 2), t from 1:
//
//   x_new   = sum_j w_ij xhat_j - eta d_i       over neighbours and itself
//   z_i     = (1 - t/2) x_i + (t/2) x_new
//   q_i     = Q(z_i)                            to all neighbours
//   xhat_j <- (1 - 2/t) xhat_j + (2/t) q_j      of sparse q_j: where it has
//   x_i    <- x_new                             coordinates
//
// xhat_j, a worker's estimate of each neighbour and everyone's estimate of the
// worker itself, starts as x_0. Sending the q_j overlaps with the next step's
// computation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/gossip_base.h"

namespace syncopate {

class EcdPsgd final : public CompressedGossip {
 public:
  explicit EcdPsgd(const SchemeParts& parts);
  void enter() override;
  void update(const StepPlan& plan) override;

 private:
  void take_in() override;

  std::vector<std::span<float>> xhat_;  // its own, then by neighbour
  std::vector<Term> mixing_;            // sum_j w_ij xhat_j
};

}  // namespace syncopate
