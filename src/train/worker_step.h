// One worker's training step, the same in every world and under every scheme:
// what the trainer repeats and `bench step` times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sync/bucket.h"
#include "sync/scheme.h"
#include "train/divergence.h"
#include "train/engine.h"
#include "train/faults.h"
#include "train/gradient_guard.h"
#include "train/stragglers.h"
#include "watch/activity.h"

namespace syncopate {

// Told from within WorkerStep::take what the device's stream has been given, so
// that events can time it.
class StepListener {
 public:
  virtual ~StepListener() = default;
  virtual void step_begins() = 0;
  // For each accumulated batch; `sums` arrive at the end of its forward pass.
  virtual void batch_arrives() = 0;
  virtual void backward_ends(const PendingSums& sums) = 0;
  virtual void step_ends() = 0;  // parameters are updated
};

// Where a step's time went on this worker: in virtual time virtual seconds,
// but for data_wait_s.
struct StepCost {
  double compute_s = 0;    // forward and backward
  double data_wait_s = 0;  // wall seconds
  SyncTimes sync;
};

// Ends an endpoint's tasks when an exception destroys their owner, before it
// destroys what they use: the owner's last member.
struct TaskGuard {
  Endpoint& endpoint;
  int exceptions = std::uncaught_exceptions();
  ~TaskGuard() {
    if (std::uncaught_exceptions() > exceptions) endpoint.abandon_tasks();
  }
};

class WorkerStep {
 public:
  // `collectives`: from choose_transport; null: through host memory.
  // `directory`: the run's. `listener`: may be null. All must outlive this.
  WorkerStep(Engine& engine,
             Endpoint& endpoint,
             DeviceCollectives* collectives,
             const std::string& directory,
             StepListener* listener = nullptr);

  Replica& replica() { return replica_; }
  Scheme& scheme() { return *scheme_; }

  // Tells the watchdog which stage this worker enters at its step `step`, and
  // lets [faults] strike there.
  void enter(Stage stage, int64_t step);

  // Once, when the place in the data is known, and before the first step.
  void open_feed();

  // --- a segment, in this order ---

  // Collective, with nothing in flight: every worker's clock becomes
  // `earliest`. In virtual time nobody goes on before all have done so.
  void meet_at(Time earliest);
  // After meet_at(segment.earliest): services start there, and this worker's
  // clock returns to where its last step ended.
  void begin(const Segment& segment);
  // What this worker tells the others when it asks scheme().next() for a step.
  Word word(int stop) const;
  StepCost take(const StepPlan& plan);
  void follow(const StepPlan& plan);  // others take this step, this worker none
  // After scheme().next() has returned `stop`. Nothing is in flight then.
  void end();

  // --- the numbers of steps: losses, and gradients that are not finite ---

  // kAll waits for the device; kArrived, on a GPU, only for the last step's
  // forward pass, and leaves out that step's gradients.
  enum class Numbers : uint8_t { kArrived, kAll };
  void read(Numbers which);
  // What read() has found since the last call.
  struct Found {
    MetricSums sums;            // no values: of no step
    int64_t skipped_steps = 0;  // left out: run.on_nonfinite = skip
  };
  Found take_found();
  // Notes a parameter that is not finite in diverged().
  void check_parameters();
  // The first number of this worker that was not finite; never with skip.
  const std::optional<Divergence>& diverged() const { return diverged_; }

  double rate() const { return rate_; }            // of the last step
  Time ended_at() const { return ended_at_; }      // the last step, by now()
  double longest_s() const { return longest_s_; }  // wall; not the first steps

  void set_batches_seen(int64_t batches) { batches_seen_ = batches; }
  // The scheme, the place in the data and the rate.
  void visit_state(StateVisitor& visitor);
  void visit_clock(StateVisitor& visitor);  // ended_at(), where it is virtual

 private:
  void sleep_as_straggler(int64_t step);
  void clear_gradients();
  void forward_backward();
  void gradients_are_final(int64_t from);
  void send_buckets(int64_t from);
  void send(const Bucket& bucket);
  double replay(int64_t step);
  void add_up(const SyncTimes& in_next, double begin_s);

  const ParameterEntry& struck() const;
  void flip_bit();
  void check_gradient(int64_t offset, int64_t elems);
  void read_losses();
  void not_finite(const Divergence& divergence);

  Engine& engine_;
  Endpoint& endpoint_;
  DeviceCollectives* collectives_;
  StepListener* listener_;
  Replica replica_;
  Schedule schedule_;
  std::vector<Phase> phases_;  // of sync_switch
  std::unique_ptr<Scheme> scheme_;
  Bucketer bucketer_;
  std::vector<int64_t> segment_offsets_;  // where buckets begin; wall time
  std::unique_ptr<Feed> feed_;
  int64_t batches_seen_ = 0;  // the sampler's position

  Stragglers stragglers_;
  Faults faults_;
  GradientGuard guard_;
  const bool is_virtual_, skips_nonfinite_;
  // Before any of it is sent: in virtual time, where all of it is there, and
  // where all of it may have to be left out.
  const bool checks_whole_gradient_;
  std::vector<int64_t> final_from_;  // backward's reports, if so

  // The sums of the last step's batches, until they are read: one step later on
  // a GPU, so that the host never waits for it.
  std::vector<PendingSums> pending_;
  int64_t pending_step_ = 0;
  Found found_;
  int64_t skipped_at_ = 0;  // the last step that was left out
  std::optional<Divergence> diverged_;

  StepCost cost_;       // of the last step
  double slept_s_ = 0;  // of its compute_s
  double rate_ = 0;
  Time ended_at_ = 0;
  double longest_s_ = 0;
  int64_t steps_of_process_ = 0;
  const double started_s_ = monotonic_s();
};

}  // namespace syncopate
