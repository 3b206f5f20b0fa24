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

#include "sync/scheme.h"

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
  void start_arrival();
  void start_all_reduce(std::string name,
                        std::span<float> values,
                        Wire wire,
                        Tag tag);
  double busy_before(Time until);

  SchemeParts parts_;
  Group world_;
  CollectiveAlgorithm algorithm_;
  Wire wire_;
  bool averages_batchnorm_;
  int64_t step_ = 0;
  std::vector<Task> in_flight_;
  // Begin and end, by position in in_flight_; written by the tasks, read after
  // they were joined.
  std::vector<std::pair<Time, Time>> task_times_;
  Task arrival_;
  Time all_arrived_at_ = 0;
  SyncTimes times_;
};

std::unique_ptr<Scheme> make_bsp(const SchemeParts& parts);

}  // namespace syncopate
