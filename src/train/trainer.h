// One worker's training from start or resume to the end, as one sequential
// routine that is the same in every world and under every scheme.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "results/results.h"
#include "run/run_directory.h"
#include "run/session.h"
#include "run/signals.h"
#include "run/time_limit.h"
#include "train/best_figure.h"
#include "train/divergence.h"
#include "train/engine.h"
#include "train/recorder.h"
#include "train/worker_step.h"

namespace syncopate {

class Trainer {
 public:
  // `time_limit` is the process's. `collectives` comes from choose_transport.
  // `results` is null on all ranks but 0.
  Trainer(Session& session,
          Engine& engine,
          const RunDirectory& directory,
          TimeLimit& time_limit,
          Endpoint& endpoint,
          DeviceCollectives* collectives,
          Results* results);

  // Collective. Returns how the process is to end: kDone, kStopped,
  // kInterrupted or kDiverged.
  ExitCode run();

 private:
  // The progress of all workers, what they were asked for and what went wrong.
  struct Boundary {
    int64_t worker_steps = 0;
    StopRequest stop = StopRequest::kNone;
    Time earliest = 0;                   // of their clocks
    std::optional<Divergence> diverged;  // the first of all
  };

  void start_or_resume();
  bool starts_anew_from(const FoundCheckpoint& found);
  void make_first_values(const std::optional<FoundCheckpoint>& from,
                         std::vector<float>& parameters,
                         std::vector<float>& buffers);
  void state_facts_of_data();
  void start_fresh(const std::optional<FoundCheckpoint>& from);
  std::optional<FoundCheckpoint> find_checkpoint();
  std::vector<std::string> conflicts_with(const FoundCheckpoint& found) const;
  std::string way_out(const FoundCheckpoint& found) const;
  // Whether the run ended at its target, which is still that, when it saved the
  // checkpoint.
  bool ended_at_target(const FoundCheckpoint& found) const;
  bool is_own(const FoundCheckpoint& found) const;  // not another run's
  // Whether the checkpoint leaves nothing to do. The run's results then stay
  // untouched, unless lacks_end().
  bool is_complete(const FoundCheckpoint& found) const;
  // Whether the process was killed after the run's last checkpoint and before
  // it had written the end of the results.
  bool lacks_end(const FoundCheckpoint& found) const;
  void load(const FoundCheckpoint& found);
  void load_resized(const FoundCheckpoint& found);
  void log_resized(const CheckpointFacts& then);
  void resume_best(const CheckpointFacts& facts);
  void prune(const FoundCheckpoint& found) const;
  void resume(const FoundCheckpoint& found);
  void look_at_results(const FoundCheckpoint& found);
  void run_segment(const Boundary& from, int64_t until);
  void record_found();
  void print_notes();
  StopRequest stop_request();
  void close_rows(const StepPlan& next);
  Boundary meet();
  Boundary finish();
  bool is_finished(const Position& at) const;
  bool is_due(int64_t every, int64_t before, int64_t now) const;
  ExitCode end_diverged(const Position& at, const Divergence& divergence);
  void audit(const Position& at);
  // Returns whether checkpoint.best is to be kept.
  bool evaluate(const Position& at);
  void save(const Position& at);
  void save_best(const Position& at);
  fs::path write_checkpoint(const Position& at,
                            const fs::path& folder,
                            int64_t keep);
  void warn(const std::string& text);  // no-op if it is empty
  void visit_state(StateVisitor& visitor);
  std::map<std::string, std::string> facts() const;
  double needed_to_stop_s() const;
  double checkpoint_expected_s() const;
  void enter(Stage stage);
  void close_rows_at(const Position& at, bool is_last);
  void end_at_target(const Position& at);
  void end(const Position& at, StopRequest stopped_by);
  ExitCode nothing_left(const Position& at);

  Session& session_;
  Engine& engine_;
  const RunDirectory& directory_;
  TimeLimit& time_limit_;
  Endpoint& endpoint_;
  Results* results_;
  WorkerStep step_;
  Scheme& scheme_;  // of step_
  Tally tally_;
  Recorder recorder_;
  BestFigure best_figure_;  // the same on all ranks
  int64_t best_since_ = 0;  // the step whose resume switched it on; 0: always
  double checkpoint_s_ = 0, evaluation_s_ = 0;  // the longest so far
  std::string target_was_reached_;  // of the checkpoint: it was, with what
  bool lacks_end_ = false;          // lacks_end() of the checkpoint
  std::string other_results_;  // why results.h5 is not continued; empty: it is
  StopRequest stop_ = StopRequest::kNone;  // asked of this worker
  std::optional<int64_t> saved_at_;  // worker_steps of the last checkpoint
  TaskGuard task_guard_;
};

}  // namespace syncopate
