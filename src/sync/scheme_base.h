// Base of most schemes: a pace, an optimizer step on the local replica, means
// over a group of workers, evaluation, checkpoints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>

#include "sync/reducer.h"

namespace syncopate {

// Who owns a replica's parts at a boundary: kShared if they are equal on all
// workers.
struct ReplicaOwners {
  Owner parameters = Owner::kWorker;
  Owner buffers = Owner::kWorker;
  Owner optimizer = Owner::kWorker;
};

class SchemeBase : public Scheme {
 public:
  void begin(const Segment& segment) override { pace_->begin(segment); }
  StepPlan next(const Word& mine) override;
  void quiesce() override { pace_->quiesce(); }
  // Averages what is not shared.
  void leave() override;
  void evaluation_model(EvalModel which,
                        std::span<float> parameters,
                        std::span<float> buffers) override;
  // Visits the pace, and the replica by its owners.
  void visit_state(StateVisitor& visitor) override;
  int64_t steps_done() const override { return pace_->steps_done(); }
  const OptimizerOptions& optimizer_options() const override {
    return parts_.optimizer;
  }
  int64_t stop_lag() const override { return pace_->stop_lag(); }
  SyncTimes take_times() override;

 protected:
  SchemeBase(const SchemeParts& parts,
             std::unique_ptr<Pace> pace,
             const ReplicaOwners& owners);

  // Applies the optimizer to the local replica with the local gradient, clipped
  // by optimizer.clip_norm.
  void step_locally(const StepPlan& plan);
  // Returns optimizer.clip_norm's factor for the gradients times `scale`, in
  // device memory; null without clipping.
  const float* clip(double scale);

  // Replaces each range by its mean over the group's workers; waits for them.
  // The ranges must outlive the scheme. Members of a group make equal calls;
  // disjoint groups may do so concurrently.
  struct Averaged {
    std::span<float> range;
    Wire wire = Wire::kF32;  // bf16 is for gradients and differences
  };
  void average(const Group& group, std::initializer_list<Averaged> ranges);
  // Counts the time of `action`, which blocks on other workers, as exposed
  // communication.
  template <typename Action>
  void exposed(const Action& action) {
    const Time begin = parts_.endpoint.now();
    action();
    times_.exposed_s += parts_.endpoint.now() - begin;
  }

  int rank() const { return parts_.endpoint.rank(); }
  int size() const { return parts_.endpoint.size(); }
  Replica& replica() { return parts_.replica; }
  Context& context() { return parts_.context; }
  Endpoint& endpoint() { return parts_.endpoint; }

  SchemeParts parts_;
  Group world_;
  Wire wire_;
  std::unique_ptr<Pace> pace_;
  std::unique_ptr<Reducer> reducer_;
  SyncTimes times_;

 private:
  ReplicaOwners owners_;
  DeviceVector<float> clip_factor_;  // (1)
};

// Every worker takes the same number of steps; `period` as in Lockstep.
std::unique_ptr<Pace> lockstep(const SchemeParts& parts, int64_t period);

}  // namespace syncopate
