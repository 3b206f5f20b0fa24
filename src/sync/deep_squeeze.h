// DeepSqueeze (Tang et al. 2019): gossip of error-compensated models.
//
//   x_i <- x_i - eta d_i
//   v    = e_i + x_i
//   q_i  = Q(v)                                 to all neighbours
//   e_i <- v - q_i
//   x_i <- x_i + gamma sum_j (w_ij - [i = j]) q_j
//
// e_i starts at 0. The worker waits for the q_j. gamma = sync.choco.gamma.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/gossip_base.h"

namespace syncopate {

class DeepSqueeze final : public CompressedGossip {
 public:
  explicit DeepSqueeze(const SchemeParts& parts);
  void enter() override;
  void update(const StepPlan& plan) override;

 private:
  void take_in() override;

  std::span<float> error_;  // e
};

void check_deep_squeeze(const SchemeRequest& request);

}  // namespace syncopate
