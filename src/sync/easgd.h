// Elastic averaging SGD (Zhang, Choromanska & LeCun 2015), synchronous form:
//
//   x_i <- optimizer_i(x_i, g_i)                H times, own optimizer state
//   d_i  = beta/N (x_i - c)                     c: the centre, x_0 at first
//   x_i <- x_i - d_i
//   c   <- c + sum_i d_i = c + beta (mean of x - c)
//
// The paper reports the centre: eval.model = centre. BatchNorm's running
// statistics stay local; the centre is evaluated with their mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/scheme_base.h"

namespace syncopate {

class Easgd final : public SchemeBase {
 public:
  explicit Easgd(const SchemeParts& parts);
  void enter() override;
  void update(const StepPlan& plan) override { step_locally(plan); }
  void end_step(const StepPlan& plan) override;
  void evaluation_model(EvalModel which,
                        std::span<float> parameters,
                        std::span<float> buffers) override;

 private:
  std::span<float> centre_;
  DeviceVector<float> mean_;
};

std::vector<Key> easgd_keys();
std::optional<double> easgd_bytes(const TrafficPlan& plan);

}  // namespace syncopate
