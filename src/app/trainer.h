// One worker's training, from start or resume to its end: the same straight
// line in every world and under every scheme.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "app/divergence.h"
#include "app/engine.h"
#include "app/faults.h"
#include "app/gradient_guard.h"
#include "app/recorder.h"
#include "app/stragglers.h"
#include "base/clock.h"
#include "checkpoint/checkpoint.h"
#include "results/results.h"
#include "run/run_directory.h"
#include "run/session.h"
#include "run/signals.h"
#include "run/time_limit.h"
#include "sync/bucket.h"
#include "sync/scheme.h"

namespace syncopate {

enum class Ending { kFinished, kStopped, kInterrupted, kDiverged };

class Trainer {
 public:
  // `time_limit`: of the process. `collectives`: of choose_transport. `results`
  // is null on all ranks but 0.
  Trainer(Session& session,
          Engine& engine,
          const RunDirectory& directory,
          TimeLimit& time_limit,
          Endpoint& endpoint,
          DeviceCollectives* collectives,
          Results* results);

  // Collective.
  Ending run();

 private:
  // Where all workers stand when nothing is in flight.
  struct Boundary {
    int64_t worker_steps = 0;
    StopRequest stop = StopRequest::kNone;
    Time earliest = 0;                   // of their clocks
    std::optional<Divergence> diverged;  // the first of all
  };

  void enter(Stage stage, int64_t step);  // what the watchdog is told
  void bucket_ready(const Bucket& bucket);
  void check_gradient(int64_t offset, int64_t elems);
  void check_parameters();
  const ParameterEntry& struck() const;
  void flip_bit();
  void start_or_resume();
  bool starts_anew_from(const FoundCheckpoint& found);
  void make_first_values(const std::optional<FoundCheckpoint>& from,
                         std::vector<float>& parameters,
                         std::vector<float>& buffers);
  void start_fresh(const std::optional<FoundCheckpoint>& from);
  std::optional<FoundCheckpoint> find_checkpoint();
  std::vector<std::string> conflicts_with(const FoundCheckpoint& found) const;
  void load(const FoundCheckpoint& found);
  std::string resize_obstacle() const;
  void load_resized(const FoundCheckpoint& found);
  void log_resized(const CheckpointFacts& then);
  void resume(const FoundCheckpoint& found);
  void run_segment(const Boundary& from, int64_t until);
  void step(const Plan& plan);
  void follow(const Plan& plan);
  void print_notes();
  Batch next_batch();
  void forward_backward(const Plan& plan);
  void replay_in_virtual_time(double step_s);
  // What happens to a step when its numbers are looked at.
  enum class Settle : uint8_t { kWithoutWaiting, kAll };
  void settle(Settle which);
  void settle_loss();
  void not_finite(const Divergence& divergence);
  Word word();
  void close_rows(int64_t worker_steps);
  Boundary meet();
  bool is_due(int64_t every, int64_t before, int64_t now) const;
  int64_t next_boundary(int64_t worker_steps) const;
  Ending end_diverged(const Position& at, const Divergence& divergence);
  void audit(const Position& at);
  void evaluate(const Position& at);
  void save(const Position& at);
  void warn(const std::string& text);  // nothing where it is empty
  void visit_state(StateVisitor& visitor);
  std::map<std::string, std::string> facts() const;
  double needed_to_stop_s() const;
  double checkpoint_expected_s() const;
  double checkpoint_bytes() const;  // of all workers, about

  Session& session_;
  Engine& engine_;
  const RunDirectory& directory_;
  TimeLimit& time_limit_;
  Endpoint& endpoint_;
  DeviceCollectives* collectives_;
  Results* results_;
  Replica replica_;
  Schedule schedule_;
  std::vector<Phase> phases_;  // of sync_switch
  std::unique_ptr<Scheme> scheme_;
  std::unique_ptr<Feed> feed_;
  Bucketer bucketer_;
  Stragglers stragglers_;
  Faults faults_;
  GradientGuard guard_;
  bool skips_nonfinite_;  // run.on_nonfinite
  // Before any of it is sent: in virtual time, where all of it is there, and
  // where all of it may have to be left out.
  bool checks_whole_gradient_;
  std::unique_ptr<Recorder> recorder_;
  int64_t batches_seen_ = 0;  // the sampler's position
  double boundary_s_ = 0;     // the virtual clock when the last step ended
  double rate_ = 0;           // of the last step
  double compute_s_ = 0, data_waited_s_ = 0;  // of the step
  double slept_s_ = 0;                        // of compute_s_
  double started_s_ = monotonic_s();
  // The sums of the last step's batches, until they are looked at: one step
  // later on a GPU, so that the host never waits for it.
  std::vector<PendingSums> pending_;
  int64_t pending_step_ = 0;
  std::vector<int64_t> segment_offsets_;  // where buckets begin
  double checkpoint_s_ = 0;               // the longest so far
  double step_s_ = 0;                     // the longest but for the first steps
  int64_t steps_of_process_ = 0;
  double evaluation_s_ = 0;             // the longest so far
  std::vector<int64_t> final_from_;     // backward's reports, in virtual time
  int64_t skipped_at_ = 0;              // the last step of which that was so
  std::optional<Divergence> diverged_;  // the first that this worker saw
  StopRequest stop_ = StopRequest::kNone;  // asked of this worker
  std::optional<int64_t> saved_at_;  // worker_steps of the last checkpoint

  // Ends the tasks, which use all of the above, when an exception ends the
  // trainer.
  struct TaskGuard {
    Endpoint& endpoint;
    int exceptions = std::uncaught_exceptions();
    ~TaskGuard() {
      if (std::uncaught_exceptions() > exceptions) endpoint.abandon_tasks();
    }
  } task_guard_{endpoint_};
};

}  // namespace syncopate
