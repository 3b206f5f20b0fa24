// One worker's training step, the same in every world and under every scheme.
// The trainer repeats it, and `bench step` times it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/device_collectives.h"
#include "optim/moving_average.h"
#include "sync/bucket.h"
#include "sync/scheme.h"
#include "train/divergence.h"
#include "train/engine.h"
#include "train/faults.h"
#include "train/gradient_guard.h"
#include "train/last_step.h"
#include "train/stragglers.h"
#include "watch/activity.h"

namespace syncopate {

// WorkerStep::take calls it whenever a part of the step has been enqueued on
// the device's stream, so that events can time the parts.
class StepListener {
 public:
  virtual ~StepListener() = default;
  virtual void step_begins() = 0;
  // For each accumulated batch; `sums` arrive at the end of its forward pass.
  virtual void batch_arrives() {}
  virtual void backward_ends(const PendingSums& /*sums*/) {}
  virtual void step_ends() = 0;  // parameters are updated
};

class ComputeTrace;

// Where a step's time went on this worker, in virtual seconds if the world has
// virtual time (data_wait_s excepted).
struct StepCost {
  double compute_s = 0;    // forward and backward
  double update_s = 0;     // virtual: computations after them
  double data_wait_s = 0;  // wall seconds
  SyncTimes sync;
};

// Ends an endpoint's tasks if an exception destroys their owner, before the
// objects that they use are destroyed. Must be the owner's last member.
// `collectives` may be null: devices may wait in them for a peer that is gone,
// and tasks for their devices.
struct TaskGuard {
  Endpoint& endpoint;
  DeviceCollectives* collectives = nullptr;
  int exceptions = std::uncaught_exceptions();
  ~TaskGuard() {
    if (std::uncaught_exceptions() <= exceptions) return;
    if (collectives != nullptr) collectives->abort();
    endpoint.abandon_tasks();
  }
};

class WorkerStep {
 public:
  // `collectives` comes from choose_transport and is null if gradients go
  // through host memory. `directory` is the run's. `listener` may be null. All
  // must outlive this object.
  WorkerStep(Engine& engine,
             Endpoint& endpoint,
             DeviceCollectives* collectives,
             const std::string& directory,
             StepListener* listener = nullptr);
  ~WorkerStep();

  Replica& replica() { return replica_; }
  Scheme& scheme() { return *scheme_; }
  // This worker's moving average of the model; null unless eval.model = ema.
  MovingAverage* average() { return average_ ? &*average_ : nullptr; }

  // Tells the watchdog which stage this worker enters at its step `step`, and
  // lets [faults] strike there.
  void enter(Stage stage, int64_t step);

  // Call once, before the first step, when the position in the data is known.
  void open_feed();

  // --- a segment, in this order ---

  // Collective, with nothing in flight. Sets every worker's clock to
  // `earliest`; in virtual time it is a barrier as well.
  void meet_at(Time earliest);
  // Call after meet_at(segment.earliest): services start at that time, then
  // this worker's clock returns to the end of its last step.
  void begin(const Segment& segment);
  // What this worker passes to scheme().next().
  StepRequest step_request(int stop) const;
  // Asks the scheme for this worker's next step, after a pause if one is due.
  StepPlan next(int stop);
  // Returns the times since the last step, for a row that ends before this one;
  // take() then leaves them out of its cost.
  SyncTimes take_times_of_next();
  StepCost take(const StepPlan& plan);
  void follow(const StepPlan& plan);  // this worker sits out an idle step
  // Call after next() has returned `stop`. Afterwards nothing is in flight.
  void end();
  // Collective, after end(): what the scheme does at the end of a run.
  void finish(RunEnd end);
  // Of all workers.
  struct Progress {
    int64_t worker_steps = 0;
    int stop = 0;       // the greatest that a worker passed
    Time earliest = 0;  // of ended_at()
    bool any_diverged = false;
  };
  // Collective, after end() or before the first segment.
  Progress agree_on_progress(int stop);

  // --- results of steps: losses, and gradients that are not finite ---

  // kAll waits for the device. kArrived waits, on a GPU, only for the last
  // step's forward pass and does not look at that step's gradients.
  enum class Numbers : uint8_t { kArrived, kAll };
  void read(Numbers which);
  // The results of read() since the last call.
  struct Found {
    MetricSums sums;            // empty if no step was read
    int64_t skipped_steps = 0;  // left out: run.on_nonfinite = skip
  };
  Found take_found();
  // Records a parameter that is not finite in diverged().
  void check_parameters();
  // This worker's first number that was not finite; nullopt with
  // run.on_nonfinite = skip.
  const std::optional<Divergence>& diverged() const { return diverged_; }

  double rate() const { return rate_; }  // of the last step
  LastStep last_step() const {
    return {rate_, last_worker_steps_, scheme_->steps_done()};
  }
  Time ended_at() const { return ended_at_; }  // the last step, by now()
  // Between segments, where clocks are set back: ended_at(); now() under MPI.
  Time clock() const { return is_virtual_ ? ended_at_ : endpoint_.now(); }
  // In wall time; of the first steps, the shortest.
  double longest_s() const {
    return longest_s_ > 0 ? longest_s_ : shortest_first_s_;
  }

  void set_batches_seen(int64_t batches) { batches_seen_ = batches; }
  // State of the scheme, the position in the data and the rate.
  void visit_state(StateVisitor& visitor);
  void visit_clock(StateVisitor& visitor);  // ended_at(), where it is virtual

 private:
  bool pause();  // returns whether one was due
  void sleep_as_straggler(int64_t step);
  void clear_gradients();
  void forward_backward();
  void count_rows();
  double data_wait_s() const { return feed_ ? feed_->wait_s() : 0; }
  void gradients_are_final(int64_t from);
  void send_buckets(int64_t from);
  void send(const Bucket& bucket);
  double replay(int64_t step);
  void replay_update();
  StepCost add_up(const SyncTimes& in_next, double begin_s);

  const ParameterEntry& struck() const;
  void flip_bit();
  void update_average();
  void check_gradient(int64_t offset, int64_t elems);
  void read_losses();
  void not_finite(const Divergence& divergence);

  Engine& engine_;
  Endpoint& endpoint_;
  DeviceCollectives* collectives_;
  StepListener* listener_;
  WorkerTrace* const trace_;                     // null: none
  std::unique_ptr<ComputeTrace> compute_trace_;  // null: none, or virtual time
  Replica replica_;
  Schedule schedule_;
  std::vector<Phase> phases_;  // of sync_switch
  std::unique_ptr<Scheme> scheme_;
  std::optional<MovingAverage> average_;
  int64_t last_worker_steps_ = -1;  // before the last step of this process
  // The step that it lacks, by this worker's count (0: none) and the
  // schedule's.
  int64_t average_due_ = 0, average_schedule_steps_ = 0;
  Bucketer bucketer_;
  StepPlan plan_;                         // of the step that is taken
  const bool counts_rows_;                // in a simulation
  std::vector<int64_t> segment_offsets_;  // where buckets begin; wall time
  std::unique_ptr<Feed> feed_;            // null in a simulation
  int64_t batches_seen_ = 0;              // the sampler's position

  Stragglers stragglers_;
  UpdateTime update_time_;
  Faults faults_;
  GradientGuard guard_;
  const bool is_virtual_, skips_nonfinite_;
  // Whether the gradient is checked as a whole before any of it is sent: in
  // virtual time, and if non-finite gradients are to be skipped.
  const bool checks_whole_gradient_;
  std::vector<int64_t> final_from_;  // backward's reports, if so

  // Sums of the last step's batches that have not been read yet. On a GPU they
  // are read one step later, so that the host never waits for them.
  std::vector<PendingSums> pending_;
  int64_t pending_step_ = 0;
  Found found_;
  int64_t skipped_at_ = 0;  // the last step that was left out
  std::optional<Divergence> diverged_;

  StepCost cost_;                // of the last step
  double counted_device_s_ = 0;  // of the next step, by take_times_of_next()
  double slept_s_ = 0;           // of its compute_s
  double rate_ = 0;
  Time ended_at_ = 0;
  Time virtual_before_mpi_s_ = 0;  // not virtual: what an earlier process took
  double longest_s_ = 0, shortest_first_s_ = 0;
  int64_t steps_of_process_ = 0;
  int64_t paused_for_ = -1;  // its own count
  const double started_s_ = monotonic_s();
};

}  // namespace syncopate
