// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019); formula in
// ops/optim_update.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optim/decay_runs.h"
#include "optim/optimizer.h"

namespace syncopate {

// Each call takes the whole slice, since each call counts as one step of the
// bias correction. ApplyParams::momentum is ignored.
class Adam final : public Optimizer {
 public:
  Adam(Context& context,
       const OptimizerOptions& options,
       const ParameterTable& table,
       int64_t begin,
       int64_t elems);
  // The moments m and v.
  std::vector<std::span<float>> state() override;
  int64_t steps() const override { return steps_; }
  void set_steps(int64_t steps) override { steps_ = steps; }
  void visit_state(StateVisitor& visitor, Owner owner) override;
  int64_t state_elems() const override { return m_.size() + v_.size(); }

 private:
  void step(Context& context,
            const Step& slice,
            const ApplyParams& params) override;

  OptimizerOptions options_;
  const ParameterTable& table_;
  int64_t begin_;
  std::vector<DecayRun> runs_;
  DeviceVector<float> m_, v_;
  int64_t steps_ = 0;
};

}  // namespace syncopate
