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
  void apply(Context& context,
             int64_t offset,
             std::span<float> x,
             std::span<const float> gradient,
             const ApplyParams& params) override;
  void direction(Context& context,
                 int64_t offset,
                 std::span<float> direction,
                 std::span<const float> x,
                 std::span<const float> gradient,
                 const ApplyParams& params) override;
  std::vector<std::span<float>> state() override;
  void visit_state(StateVisitor& visitor, Owner owner) override;
  int64_t state_elems() const override { return momentum_.size(); }

 private:
  // Calls `act(first, count, state, params)` for each stretch of equal weight
  // decay in [offset, offset + elems): `first` is relative to `offset`, `state`
  // is its momentum.
  template <typename Act>
  void for_stretches(int64_t offset,
                     int64_t elems,
                     const ApplyParams& params,
                     const Act& act);

  OptimizerOptions options_;
  const ParameterTable& table_;
  int64_t begin_;
  std::vector<DecayRun> runs_;
  DeviceVector<float> momentum_;  // empty if the momentum is 0
};

}  // namespace syncopate
