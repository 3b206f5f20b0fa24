// Local SGD: H local steps on each worker, then a mean.
//
//   x_i <- optimizer_i(x_i, g_i)                 H times, own optimizer state
//   average:   x_i <- mean of x                  (Stich 2019)
//   momentum:  d = x_start - mean of x           x_start: at the round's start
//              v <- mu v + d
//              x_i <- x_start - eta v            or Nesterov: eta (d + mu v)
//
// The second is the outer optimizer of DiLoCo (Douillard et al. 2023, algorithm
// 1) and, without Nesterov, SlowMo (Wang et al. 2020) with a constant local
// rate. Before local_sgd.start, gradients are averaged at each step (post-local
// SGD, Lin et al. 2020). BatchNorm's running statistics are averaged together
// with the parameters, or stay local.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/scheme_base.h"

namespace syncopate {

class LocalSgd final : public SchemeBase {
 public:
  explicit LocalSgd(const SchemeParts& parts);
  StepPlan next(const Word& mine) override;
  void gradient_ready(const Bucket& bucket) override;
  void update(const StepPlan& plan) override;
  void end_step(const StepPlan& plan) override;

 private:
  void outer_step();

  LocalSgdOptions options_;
  bool is_together_ = false;           // this step averages gradients
  int64_t steps_in_round_ = 0;         // a boundary may fall within a round
  std::span<float> start_, velocity_;  // of the outer optimizer; empty: none
};

void check_local_sgd(const SchemeRequest& request);
std::vector<Key> local_sgd_keys();
std::optional<double> local_sgd_bytes(const TrafficPlan& plan);

}  // namespace syncopate
