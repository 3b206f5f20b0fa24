// Bulk-synchronous data parallelism:
//
//   g   = 1/N sum_i g_i                   (all-reduce, bucket by bucket)
//   x_i = optimizer(x_i, g)               the same on every worker
//
// A bucket's all-reduce starts during backward and overlaps with the rest of
// it. All replicas stay equal to the bit. BatchNorm's running statistics stay
// each worker's own (local), or are averaged every step as DS-Sync's and
// ESync's baselines do (averaged).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sync/reducer.h"

namespace syncopate {

class Bsp final : public Scheme {
 public:
  explicit Bsp(const SchemeParts& parts);
  Plan next() override;
  void gradient_ready(const Bucket& bucket) override;
  void update(const Plan& plan) override;
  void end_step(const Plan& plan) override;
  void quiesce() override;
  void evaluation_model(EvalModel which,
                        std::span<float> parameters,
                        std::span<float> buffers) override;
  void visit_state(StateVisitor& visitor) override;
  int64_t steps_done() const override { return step_; }
  int64_t worker_steps_done() const override;
  SyncTimes take_times() override;

 private:
  void add(const SyncTimes& times);

  SchemeParts parts_;
  Group world_;
  Wire wire_;
  bool averages_batchnorm_;
  int64_t step_ = 0;
  std::unique_ptr<Reducer> reducer_;
  DeviceVector<float> clip_factor_;  // one
  SyncTimes times_;
};

std::unique_ptr<Scheme> make_bsp(const SchemeParts& parts);

}  // namespace syncopate
