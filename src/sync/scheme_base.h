// Base of most schemes: a pace, an optimizer step on the local replica, means
// over a group of workers, evaluation, checkpoints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "sync/reducer.h"
#include "tensor/visit_numbers.h"

namespace syncopate {

// Who owns a replica's parts at a boundary: kShared if they are equal on all
// workers.
struct ReplicaOwners {
  Owner parameters = Owner::kWorker;
  Owner buffers = Owner::kWorker;
  Owner optimizer = Owner::kWorker;
};

constexpr Owner owner_of(Statistics batchnorm) {
  return batchnorm == Statistics::kAveraged ? Owner::kShared : Owner::kWorker;
}

class SchemeBase : public Scheme {
 public:
  void begin(const Segment& segment) override { pace_->begin(segment); }
  StepPlan next(const StepRequest& mine) override;
  void quiesce() override;
  // Averages what is not shared.
  void leave(double rate) override;
  void evaluation_model(EvalModel which,
                        std::span<float> parameters,
                        std::span<float> buffers) override;
  // Visits the pace, the replica by its owners, and what was given to keep().
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

  // For a scheme whose model at a boundary is not what its replica holds:
  // evaluation_model() and visit_state() with the model given.
  void fetch_model(EvalModel which,
                   std::span<const float> held_parameters,
                   std::span<const float> held_buffers,
                   std::span<float> parameters,
                   std::span<float> buffers);
  void visit_state_with(StateVisitor& visitor,
                        const DeviceVector<float>& parameters,
                        const DeviceVector<float>& buffers);

  // State that checkpoints hold, in the order of these calls from constructors:
  // whatever `visit` visits, a number, or a new range as long as the
  // parameters, initially 0, which this object owns.
  void keep(std::function<void(StateVisitor&)> visit);
  template <typename Number>
  void keep(Owner owner, std::string name, Number& number) {
    keep([=, &number](StateVisitor& visitor) {
      visit_number(visitor, owner, name, number);
    });
  }
  std::span<float> keep_range(Owner owner, std::string name);
  // Returns a range of zeros on the replica's device.
  DeviceVector<float> make_range(int64_t elems);
  void fill_zero(std::span<float> range);

  // Returns what the optimizer needs for a step with the gradients times
  // `grad_scale`, clipped by optimizer.clip_norm.
  ApplyParams params_of(const StepPlan& plan, double grad_scale = 1);
  // The same for the gradients of the worker's own samples, which are weighed
  // by their number: clip_norm bounds them without this weight.
  ApplyParams own_params_of(const StepPlan& plan);
  // Applies the optimizer to the local replica with the local gradient.
  void step_locally(ApplyParams params);
  void step_locally(const StepPlan& plan) { step_locally(params_of(plan)); }
  // Returns the optimizer's direction, computed in place of the gradient.
  std::span<float> direction(const ApplyParams& params);
  // Returns optimizer.clip_norm's factor for the gradients times `scale`, in
  // device memory; null without clipping.
  const float* clip(double scale);

  // Returns BatchNorm's running statistics if they are averaged with the
  // parameters or gradients, else an empty range.
  std::span<float> averaged_buffers(Statistics batchnorm);

  // Sums gradients over the reducer's group during backward (of embedding
  // tables, only touched rows if `as_rows`), and after the last bucket of a
  // step `buffers` too.
  void start_sum(const Bucket& bucket, bool as_rows, std::span<float> buffers);
  // Waits for the sums over `group` and turns those of `buffers` into means.
  void finish_sums(const Group& group, std::span<float> buffers);

  // Replaces each range by its mean over the group's workers; waits for them.
  // The ranges must outlive the scheme. Members of a group make equal calls;
  // disjoint groups may do so concurrently.
  struct Averaged {
    std::span<float> range;
    Wire wire = Wire::kF32;  // bf16 is for gradients and differences
  };
  void average(const Group& group, std::initializer_list<Averaged> ranges);
  // Counts the time of `action`, which blocks on `what` of other workers, as
  // exposed communication.
  template <typename Action>
  void exposed(const char* what, const Action& action) {
    const Time begin = parts_.endpoint.now();
    action();
    times_.exposed_s += waited_since(begin, parts_.endpoint, what).exposed_s;
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
  // Error feedback: this worker's directions that were not sent yet, which
  // leave() applies. Empty if there is none.
  std::span<float> unsent_;

 private:
  ReplicaOwners owners_;
  std::vector<std::function<void(StateVisitor&)>> kept_;
  std::deque<DeviceVector<float>> kept_ranges_;
  DeviceVector<float> clip_factor_;  // (1)
};

// For SchemeInfo::check of `scheme`, whose messages cannot be bf16: `why` in
// "sync.wire: bf16 WHY, expected fp32 with SCHEME".
void refuse_bf16(const SchemeRequest& request,
                 const char* scheme,
                 const char* why);

// Scales the mean gradient of the local batch so that the sum over workers is a
// mean over samples, if batch sizes differ.
void weigh_by_samples(const SchemeParts& parts, const Bucket& bucket);

// Agreeing on stops must not couple workers more tightly than their messages to
// neighbours or small groups do.
inline constexpr int64_t kLoosePeriod = 8;

// Every worker takes the same number of steps; `period` as in Lockstep.
std::unique_ptr<Pace> lockstep(const SchemeParts& parts, int64_t period);
// For rounds of local steps. Under MPI, a stop must not wait for the end of two
// long rounds: requests are agreed every 32 steps, so that no worker gets more
// than 64 steps ahead of another.
std::unique_ptr<Pace> lockstep_in_rounds(const SchemeParts& parts,
                                         int64_t steps_of_round);

}  // namespace syncopate
