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
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "sync/gossip_base.h"

namespace syncopate {

class Choco final : public CompressedGossip {
 public:
  explicit Choco(const SchemeParts& parts);
  void enter() override;
  void update(const StepPlan& plan) override;
  std::vector<SeriesInfo> series() const override;
  std::vector<double> take_series() override;

 private:
  // After many rounds c is off by a few units, and so are models from each
  // other; residuals up to 0.5 add up exactly.
  static constexpr float kUnit = 0x1p-25f;

  void take_in() override;

  std::span<float> xhat_, c_;
  std::map<double, int> num_neighbours_;  // by weight
};

void check_choco(const SchemeRequest& request);
std::vector<Key> choco_keys();

}  // namespace syncopate
