// Turns what the workers have counted into rows of results.h5 and lines of the
// log. Rank 0 writes. The other ranks send it their figures when they pass the
// end of a row, so no worker waits for a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "results/metrics_csv.h"
#include "results/results.h"
#include "run/session.h"
#include "sync/scheme.h"
#include "train/best_evaluation.h"
#include "train/decay_term.h"
#include "train/engine.h"
#include "train/evaluator.h"
#include "train/last_step.h"
#include "train/run_target.h"
#include "train/speed_log.h"
#include "train/tally.h"
#include "train/training_clock.h"

namespace syncopate {

// The progress of training at a boundary between two steps.
struct Position {
  int64_t step = 0;  // worker_steps / N
  int64_t worker_steps = 0;
  double rate = 0;  // of the step before
};

// The wall time of training so far, in checkpoints and results.
inline constexpr const char* kTrainingMs = "training_ms";

class Recorder {
 public:
  // `replica` and `tally` are this worker's; `results` is null on all ranks but
  // 0.
  Recorder(Session& session,
           const Engine& engine,
           Endpoint& endpoint,
           Scheme& scheme,
           const Replica& replica,
           Tally& tally,
           Results* results);

  // The training clock runs between these calls.
  void start_clock() { clock_.start(); }
  void stop_clock();
  // On resume at `worker_steps`: rows go on from there, and what an earlier
  // process counted does not count as this one's.
  void forget_earlier_process(int64_t worker_steps);
  // On resume at `step`, on rank 0: restores the clock.
  void resume_clock(int64_t step, int64_t training_ms);
  // Wall time of training in the whole run.
  int64_t training_ms() const;
  // For a progress line: loss and speed since the last row, or of that row.
  std::string progress_note(int64_t worker_steps) const;
  // On rank 0, before each of its steps: logs the speed once if no row does so
  // soon enough (SpeedLog::first).
  void log_first_speed(int64_t worker_steps);
  // The current virtual time; NaN under MPI.
  double virtual_s() const;

  // Whether this worker is past the end of the current row. Rows of /train,
  // /comm and /sync, and lines of the log, end at multiples of run.log_every.
  bool is_row_over(int64_t worker_steps) const;
  // Sends the figures of the rows that ended by `worker_steps`. `last` is this
  // worker's last step.
  void close_rows(int64_t worker_steps, const LastStep& last);
  // Called by all workers at a boundary: ends the last row here, unless nothing
  // was counted since the row before.
  void close_last_row(const Position& at, const LastStep& last);
  // On rank 0: writes the rows for which all figures have arrived.
  // write_all_rows, called by all workers at a boundary, waits for all closed
  // rows.
  void write_rows();
  void write_all_rows();
  // Collective: writes a row of /eval and judges run.target. On the validation
  // set it returns on all workers whether the score (the second metric) is the
  // best so far; NaN never is.
  bool evaluation(const Position& at, const Evaluation& evaluation);
  // Collective, after the last row of /eval was written: records whether it
  // reached run.target, and with what.
  void judge_target(const Position& at);
  // "" until an evaluation reaches run.target, then the same text on all
  // workers, as checkpoints keep it: "accuracy >= 0.9 was reached at step 12,
  // ..." (kTargetReached).
  std::string target_reached() const;
  // On rank 0 of a resumed run: "accuracy >= 0.9 was reached at step 12" if an
  // evaluation in its results reached run.target, which another target let go
  // on; otherwise "".
  std::string target_reached_before() const;
  // Whether such a text of a checkpoint is about this run's target.
  bool is_target_of(const std::string& reached) const;
  // Records the same models' results on the test set after an evaluation on the
  // validation set that was the best so far.
  void test_of_best(const Position& at, const Evaluation& test);
  // Whether a native collective has run (TrafficCounters::is_modelled), in this
  // process or in an earlier one of this run.
  bool bytes_are_modelled() const {
    return were_bytes_modelled_ || endpoint_.traffic().is_modelled;
  }
  void note_modelled_bytes() { were_bytes_modelled_ = true; }
  // Collective. Writes the table at the end of the log, and /summary: how the
  // run ended and, if it was stopped, by what (name_of).
  void finish(const Position& at,
              const std::string& how,
              const std::string& stopped_by = "none");

  // The figures counted since the last row and since the start.
  void visit_state(StateVisitor& visitor);
  // On rank 0: from here on rows are also written as text.
  void write_csv(const fs::path& path) { csv_.emplace(path, *results_); }

 private:
  // A row for which figures are still arriving.
  struct OpenRow {
    Position at;
    double time_s = 0;
    std::vector<double> mine;
    std::vector<std::vector<double>> others;  // rank 0: by rank - 1
    std::optional<DecayTerm> decay_term;      // rank 0, with decay
    Task task;
  };
  // The figures that each worker sends for a row: metric sums, these, the
  // scheme's series, and its steps so far if workers run freely.
  enum Figure {
    kSamples,
    kCompute,
    kExposed,
    kOverlapped,
    kWait,
    kBytes,
    kMessages,
    kControlBytes,
    kVirtual,
    kNumFigures
  };
  // At the end, where workers take steps of their own: seconds since the start
  // of the process, and LastStep.
  enum Own { kEnded, kRate, kLastStep, kStepsDone, kNumOwn };
  void declare_tables();
  void declare_series();
  void close_row(const Position& at, const LastStep& last);
  OpenRow& as_first_ended(OpenRow& row) const;
  void write(const OpenRow& row);
  void write_series(const Position& at,
                    const std::vector<std::vector<double>>& by_worker);
  size_t num_figures() const;
  double epoch(const Position& at) const;
  // The first columns of every table.
  std::vector<double> position_columns(const Position& at) const;
  // `total`: metric sums and figures of all workers.
  void log_row(const OpenRow& row, const std::vector<double>& total);
  std::string step_text(const Position& at) const;
  std::string short_name(size_t metric) const;
  // A worker's figures at the end of the run.
  struct EndFigures {
    Tally::SinceStart since_start;
    // Since the last row.
    double row_samples, row_bytes, row_messages, row_control_bytes;
    // Totals of the whole run.
    double skipped, steps;
    double virtual_s;
  };
  EndFigures end_figures() const;
  // Totals over all workers.
  struct Totals {
    double samples = 0, bytes = 0, messages = 0, control_bytes = 0;
    // At the end of the run.
    double skipped = 0, trained_s = 0, samples_per_s = 0;
    double virtual_s = 0;  // of the last worker; 0 or NaN: no virtual clock
    bool is_partly_virtual = false;  // some rows were written under MPI
  };
  void log_end(const Position& at,
               const std::string& how,
               const std::vector<EndFigures>& by_worker,
               const Totals& totals);
  void log_target(const Position& at);
  void summarize_target();
  void write_evaluation(const Position& at, const Evaluation& evaluation);
  void summarize(const Position& at,
                 const std::string& how,
                 const std::string& stopped_by,
                 const Totals& totals);

  Session& session_;
  const Engine& engine_;
  Endpoint& endpoint_;
  Scheme& scheme_;
  const Replica& replica_;
  Results* results_;
  std::optional<MetricsCsv> csv_;
  bool is_free_running_;                  // workers count steps of their own
  bool has_decay_term_ = false;           // rank 0: in a phase at least
  std::vector<MetricInfo> metrics_;       // of training
  std::vector<MetricInfo> eval_metrics_;  // of evaluations
  std::vector<SeriesInfo> series_;
  std::deque<OpenRow> open_rows_;
  int64_t rows_closed_ = 0;     // ends at rows_closed_ * run.log_every
  int64_t last_row_ended_ = 0;  // worker_steps
  Tally& tally_;
  TrainingClock clock_;
  SpeedLog speed_;
  // This worker's mean training loss over the row that it closed last.
  double closed_loss_ = std::numeric_limits<double>::quiet_NaN();
  Totals totals_;  // of the rows written so far
  bool were_bytes_modelled_ = false;
  BestEvaluation best_evaluation_;  // on rank 0
  const RunTarget target_;
  std::optional<Spent> reached_;  // on all workers, in this process
};

}  // namespace syncopate
