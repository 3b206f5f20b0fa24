// Stochastic gradient descent with momentum; formula in ops/optim_update.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optim/decay_runs.h"
#include "optim/optimizer.h"

namespace syncopate {

class Sgd final : public Optimizer {
 public:
  Sgd(Context& context,
      const OptimizerOptions& options,
      const ParameterTable& table,
      int64_t begin,
      int64_t elems);
  std::vector<std::span<float>> state() override;
  void visit_state(StateVisitor& visitor, Owner owner) override;
  int64_t state_elems() const override { return momentum_.size(); }

 private:
  void step(Context& context,
            const Step& slice,
            const ApplyParams& params) override;

  OptimizerOptions options_;
  const ParameterTable& table_;
  int64_t begin_;
  std::vector<DecayRun> runs_;
  DeviceVector<float> momentum_;  // empty if the momentum is 0
};

}  // namespace syncopate
