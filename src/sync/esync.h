// ESync: workers of different speeds take as many local steps as fit into a
// round. Round t, replicas all at w_t; worker r:
//
//   until the state server says "ready" (state_server.h, asked after a step):
//     x = optimizer(x, g)                                  n_r local steps
//   w_{t+1} = w_t + global_lr 1/N sum_r (x_r - w_t)        (all-reduce)
//   x = w_{t+1};  RESET
//
// Li et al. (IEEE TSC 2020), spec 4.1. The sum is over workers, regardless of
// their n_r. BatchNorm's running statistics are averaged with the parameters or
// stay local. Momentum, if any, is local too.
//
// With esync.query = non_blocking (the paper's delayed answer), the query is in
// flight while the next step runs, and "ready" abandons that step and discards
// its gradient. A step that completes before the answer arrives counts.
//
// At a boundary all workers end the round together if any of them has taken a
// step in it. No worker knows who is waiting in an aggregation for whom, so
// each aggregation begins with a count of local steps and of workers at the
// boundary: those at the boundary take part in aggregations until all are
// there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/scheme_base.h"
#include "sync/state_server.h"

namespace syncopate {

class Esync final : public SchemeBase {
 public:
  explicit Esync(const SchemeParts& parts);
  void begin(const Segment& segment) override;
  StepPlan next(const Word& mine) override;
  bool abandons_step() override;
  void update(const StepPlan& plan) override;
  void end_step(const StepPlan& plan) override;
  void quiesce() override;
  void visit_state(StateVisitor& visitor) override;
  std::vector<SeriesInfo> series() const override;
  std::vector<double> take_series() override;

 private:
  enum class At { kStep, kBoundary };
  void serve(Endpoint& endpoint);  // rank 0
  void tell(int kind);
  void ask();         // the answer will be in answer_
  bool has_answer();  // in answer_; nothing is pending then
  void wait_for_answer();
  bool aggregate(At at);  // returns whether all are at the boundary
  void start_round();

  // Resolves esync.epsilon_steps = auto for this world.
  static double epsilon_steps(const SchemeParts& parts);

  bool waits_for_answer_;
  StateServer server_;  // of no workers, except on rank 0
  Task service_;
  DeviceVector<float> anchor_;  // w_t
  int64_t round_ = 0, local_steps_ = 0;
  bool is_open_ = false, has_begun_round_ = false;
  Time step_began_ = 0;
  double step_s_ = 0;
  Time available_at_ = 0;  // when a boundary's aggregation is complete
  Request question_;       // in flight; null: none
  int64_t answer_ = 0;     // 1: ready
  bool is_ready_ = false, is_abandoned_ = false;
  int64_t last_local_steps_ = 0;         // of the previous round
  double waited_s_ = 0, abandoned_ = 0;  // since the last row
};

std::vector<Key> esync_keys();

}  // namespace syncopate
