// CHOCO-SGD (Koloskova et al. 2019, 2020), in the order of its published code,
// which lets a round of messages travel under the next step:
//
//   x_i    <- x_i - eta d_i
//   x_i    <- x_i + gamma (s_i - xhat_i)        gossip with public copies
//   q_i     = Q(x_i - xhat_i)                   to all neighbours
//   xhat_i <- xhat_i + q_i
//   s_i    <- s_i + sum_j w_ij q_j              over neighbours and itself
//
// xhat_i, what everybody knows of x_i, and s_i = sum_j w_ij xhat_j start at 0.
// The last two lines run before the next gossip, when the q_j are there.
// gamma = sync.choco.gamma.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/gossip_base.h"

namespace syncopate {

class Choco final : public CompressedGossip {
 public:
  explicit Choco(const SchemeParts& parts);
  void enter() override;
  void update(const Plan& plan) override;
  void visit_state(StateVisitor& visitor) override;
  std::vector<SeriesInfo> series() const override;
  std::vector<double> take_series() override;

 private:
  void take_in() override;

  DeviceVector<float> xhat_, s_;
};

std::unique_ptr<Scheme> make_choco(const SchemeParts& parts);
std::string choco_obstacle(const SchemeRequest& request);

}  // namespace syncopate
