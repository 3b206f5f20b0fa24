// Synchronous model averaging (Koliousis et al. 2019, CROSSBOW, algorithm 1):
//
//   c_i = (x_i - z) / N                  z: the central average, x_0 at first
//   x_i <- optimizer_i(x_i, g_i) - c_i
//   z   <- z + sum_i c_i + mu (z - z')   z': z one step before
//
// The paper reports z: eval.model = centre. BatchNorm's running statistics stay
// local. The averaging goes on where the rate changes: no restarts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/scheme_base.h"

namespace syncopate {

class Sma final : public SchemeBase {
 public:
  explicit Sma(const SchemeParts& parts);
  void enter() override;
  void update(const StepPlan& plan) override;
  void evaluation_model(EvalModel which,
                        std::span<float> parameters,
                        std::span<float> buffers) override;
  void visit_state(StateVisitor& visitor) override;

 private:
  DeviceVector<float> centre_, last_;  // z and z'
  DeviceVector<float> pull_;           // c_i, then their mean
};

std::unique_ptr<Scheme> make_sma(const SchemeParts& parts);
std::vector<Key> sma_keys();
std::optional<double> sma_bytes(const TrafficPlan& plan);

}  // namespace syncopate
