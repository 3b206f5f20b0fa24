#include "train/trainer.h"

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/text.h"
#include "checkpoint/agreement.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "comm/trace.h"
#include "train/audit.h"
#include "train/evaluator.h"

namespace syncopate {

Trainer::Trainer(Session& session,
                 Engine& engine,
                 const RunDirectory& directory,
                 TimeLimit& time_limit,
                 Endpoint& endpoint,
                 DeviceCollectives* collectives,
                 Results* results)
    : session_(session),
      engine_(engine),
      directory_(directory),
      time_limit_(time_limit),
      endpoint_(endpoint),
      results_(results),
      step_(engine, endpoint, collectives, directory.path().string()),
      scheme_(step_.scheme()),
      tally_(endpoint, engine.model->metrics().size()),
      recorder_(session,
                engine,
                endpoint,
                scheme_,
                step_.replica(),
                tally_,
                results),
      best_figure_(engine),
      task_guard_{endpoint, collectives} {}

void Trainer::enter(Stage stage) {
  step_.enter(stage, scheme_.steps_done());
}

// --- steps -------------------------------------------------------------------

// The time for the steps until a stop takes effect, an evaluation and a
// checkpoint, estimated as twice the longest of each so far.
double Trainer::needed_to_stop_s() const {
  const auto lag = static_cast<double>(scheme_.stop_lag());
  return 2 *
         (lag * step_.longest_s() + evaluation_s_ + checkpoint_expected_s());
}

// Estimate before the first checkpoint: its size, about that of all replicas
// without their gradients, at the speed of a busy file system.
double Trainer::checkpoint_expected_s() const {
  constexpr double kBytesPerSecond = 100e6;
  if (checkpoint_s_ > 0) return checkpoint_s_;
  const int64_t of_a_worker =
      engine_.replica_bytes() - 4 * engine_.model->parameters().num_elems();
  return static_cast<double>(endpoint_.size() * of_a_worker) / kBytesPerSecond;
}

// The request that this worker has received and passes on to the others. A
// request is never withdrawn.
StopRequest Trainer::stop_request() {
  stop_ = std::max(stop_, requested_stop());
  if (results_) stop_ = std::max(stop_, directory_.requested());
  if (time_limit_.is_near(needed_to_stop_s()))
    stop_ = std::max(stop_, StopRequest::kTimeLimit);
  return stop_;
}

// Passes on the results of steps that have been read from the device.
void Trainer::record_found() {
  const WorkerStep::Found found = step_.take_found();
  if (!found.sums.values.empty()) tally_.add_metrics(found.sums);
  tally_.add_skipped_steps(found.skipped_steps);
}

// Rows of the log make no worker wait: each worker closes a row when its own
// next step lies beyond the row's end.
void Trainer::close_rows(const StepPlan& next) {
  if (!recorder_.is_row_over(next.worker_steps)) return;
  step_.read(WorkerStep::Numbers::kArrived);
  record_found();
  tally_.add_times(step_.take_times_of_next());
  LastStep last = step_.last_step();
  if (!next.is_idle) --last.steps_done;  // the next one counts as done
  recorder_.close_rows(next.worker_steps, last);
}

void Trainer::print_notes() {
  for (const std::string& note : scheme_.take_notes())
    if (results_) session_.log().line("{}", note);
}

// Takes this worker's steps until none is left before the boundary.
void Trainer::run_segment(const Boundary& from, int64_t until) {
  tally_.uncounted([&] { step_.meet_at(from.earliest); });
  recorder_.start_clock();
  step_.begin({from.worker_steps, until, from.earliest});
  print_notes();
  for (;;) {
    const auto stop = static_cast<int>(stop_request());
    const StepPlan plan = step_.next(stop);
    print_notes();
    if (plan.stop) break;
    close_rows(plan);
    {
      const AtStorage here;
      recorder_.write_rows();
      if (results_) {
        recorder_.log_first_speed(plan.worker_steps);
        session_.log().progress(plan.worker_steps / endpoint_.size(),
                                engine_.plan.stop_at,
                                recorder_.progress_note(plan.worker_steps));
      }
    }
    if (plan.is_idle) {
      step_.follow(plan);
      continue;
    }
    const StepCost cost = step_.take(plan);
    record_found();
    tally_.add_data_wait(cost.data_wait_s);
    tally_.add_times(cost.compute_s, cost.sync);
  }
  step_.end();
  record_found();
  tally_.add_times(scheme_.take_times());
  recorder_.stop_clock();
}

// --- between steps -----------------------------------------------------------

// Collects the progress and requests of all workers before anything is
// evaluated or saved, or the run ends. Messages at a boundary count in no row
// and take no virtual time. (src/sync/README.md says what a boundary changes.)
Trainer::Boundary Trainer::meet() {
  enter(Stage::kBoundary);
  tally_.uncounted([&] { scheme_.gather(); });
  step_.check_parameters();
  const auto stop = static_cast<int>(stop_request());
  Boundary here;
  tally_.uncounted([&] {
    const WorkerStep::Progress all = step_.agree_on_progress(stop);
    here.worker_steps = all.worker_steps;
    here.stop = static_cast<StopRequest>(all.stop);
    here.earliest = all.earliest;
    if (all.any_diverged)
      for (const std::vector<double>& worker : all_gather(
               endpoint_, endpoint_.world_group(), to_numbers(step_.diverged()),
               tags::kControl, Traffic::kControl))
        here.diverged = first_of(here.diverged, divergence_from(worker.data()));
  });
  return here;
}

// Whether a period ends in (before, now].
bool Trainer::is_due(int64_t every, int64_t before, int64_t now) const {
  return every > 0 && now / every > before / every;
}

bool Trainer::evaluate(const Position& at) {
  enter(Stage::kEvaluation);
  const double begin = monotonic_s();
  const SetPart part = engine_.options.eval.on;
  const BatchDone show = [this](int64_t done, int64_t total) {
    if (results_) session_.log().progress(done, total, "evaluating");
  };
  const Evaluation evaluation =
      evaluate_scheme(engine_, part, endpoint_, scheme_, step_.average(), show);
  const bool is_best = recorder_.evaluation(at, evaluation);
  if (is_best && part == SetPart::kValidation)
    recorder_.test_of_best(
        at, evaluate_scheme(engine_, SetPart::kTest, endpoint_, scheme_,
                            step_.average(), show));
  scheme_.evaluated(evaluation.metrics[0], evaluation.metrics[1]);
  print_notes();
  evaluation_s_ = std::max(evaluation_s_, monotonic_s() - begin);
  return best_figure_ && best_figure_.note(evaluation);
}

void Trainer::audit(const Position& at) {
  std::string difference;
  tally_.uncounted([&] {
    difference = audit_replicas(
        *engine_.context, endpoint_, [this](StateVisitor& visitor) {
          const Time here = endpoint_.now();
          endpoint_.set_clock(step_.ended_at());  // which visit_state requires
          scheme_.visit_state(visitor);
          endpoint_.set_clock(here);
        });
  });
  if (difference.empty()) return;
  close_rows_at(at, at.step >= engine_.plan.total_steps);
  recorder_.finish(at, "replicas differ", "none");
  if (results_) results_->commit();
  throw AgreedError(Error(
      ExitCode::kInternal,
      fmt::format("replicas, which {} keeps equal, differ after step {}: {} "
                  "(a memory or network fault; results kept, this state is not "
                  "saved: run again to resume from the last checkpoint)",
                  engine_.options.sync.scheme, at.step, difference)));
}

ExitCode Trainer::end_diverged(const Position& at,
                               const Divergence& divergence) {
  recorder_.finish(at, "diverged");
  if (results_) {
    results_->commit();
    const std::string line = fmt::format(
        "error: diverged: {} (results kept, this state is not saved)",
        divergence.text(engine_.model->parameters()));
    std::fprintf(stderr, "%s\n", line.c_str());
    session_.log().note_in_file(line);
  }
  return ExitCode::kDiverged;
}

// Whether the run has reached its last step or its target.
bool Trainer::is_finished(const Position& at) const {
  return at.step >= engine_.plan.total_steps ||
         !recorder_.target_reached().empty();
}

// `is_last`: also the row that no step will complete.
void Trainer::close_rows_at(const Position& at, bool is_last) {
  recorder_.close_rows(at.worker_steps, step_.last_step());
  if (is_last) recorder_.close_last_row(at, step_.last_step());
  recorder_.write_all_rows();
}

// Ends the training at the last step. The scheme's final exchange may produce
// parameters that are not finite.
Trainer::Boundary Trainer::finish() {
  recorder_.start_clock();
  step_.finish(RunEnd::kLastStep);
  recorder_.stop_clock();
  tally_.add_times(scheme_.take_times());
  return meet();
}

// What comes before the evaluation where a run ends at its last step.
void Trainer::end_at_target(const Position& at) {
  close_rows_at(at, true);
  step_.finish(RunEnd::kTarget);
}

void Trainer::end(const Position& at, StopRequest stopped_by) {
  const bool is_end = is_finished(at);
  recorder_.finish(at, is_end ? "finished" : "stopped", name_of(stopped_by));
  if (!results_) return;
  results_->commit();
  if (is_end) directory_.discard_requests(session_.log());
}

ExitCode Trainer::nothing_left(const Position& at) {
  if (lacks_end_) {
    if (results_)
      session_.log().line(
          "step {} of {}: only the summary is missing, because the process was "
          "killed before it wrote it",
          at.step, engine_.plan.stop_at);
    if (!target_was_reached_.empty()) recorder_.judge_target(at);
    end(at, StopRequest::kNone);
    return ExitCode::kDone;
  }
  if (!results_) return ExitCode::kDone;
  const int before = engine_.saved ? engine_.saved->workers : engine_.workers;
  const bool has_ended = at.step >= engine_.plan.total_steps;
  if (target_was_reached_.empty())
    session_.log().line(
        "step {} of {}: nothing left to do{}", at.step, engine_.plan.stop_at,
        has_ended && before != engine_.workers
            ? fmt::format(": this run ended with {}; to train with {}, give "
                          "another run.name",
                          counted(before, "worker"), engine_.workers)
            : "");
  else
    session_.log().line(
        "{}: nothing left to do (to continue, set run.target to another value, "
        "or to - for none)",
        target_was_reached_);
  if (has_ended || !target_was_reached_.empty())
    directory_.discard_requests(session_.log());
  return ExitCode::kDone;
}

ExitCode Trainer::run() {
  enter(Stage::kStart);
  start_or_resume();
  Boundary here = meet();
  const int64_t N = endpoint_.size();
  const auto position = [&] {
    return Position{here.worker_steps / N, here.worker_steps, step_.rate()};
  };
  if (position().step >= engine_.plan.stop_at || !target_was_reached_.empty())
    return nothing_left(position());
  if (results_) {
    write_file_atomically(directory_.input(), echo_input(engine_.input));
    if (engine_.options.output.csv) recorder_.write_csv(directory_.metrics());
  }
  here.stop = StopRequest::kNone;  // a step at least
  if (WorkerTrace* trace = endpoint_.trace())
    trace->start_at(position().step, step_.clock());
  while (here.stop <= StopRequest::kSave && !is_finished(position()) &&
         position().step < engine_.plan.stop_at) {
    const int64_t before = position().step;
    run_segment(here, engine_.next_boundary(here.worker_steps));
    here = meet();
    const Position at = position();
    const bool is_end = at.step >= engine_.plan.total_steps;
    if (!here.diverged) {
      if (is_end) here = finish();
      // At every boundary, so that only audited models are evaluated or saved.
      if (engine_.plan.audit_every > 0) audit(at);
    }
    close_rows_at(at, is_end || here.diverged);
    if (here.diverged) return end_diverged(at, *here.diverged);
    const bool saves = at.step >= engine_.plan.stop_at ||
                       here.stop != StopRequest::kNone ||
                       is_due(engine_.plan.checkpoint_every, before, at.step);
    const bool is_best =
        (is_end || is_due(engine_.plan.eval_every, before, at.step)) &&
        evaluate(at);
    const bool is_at_target = !is_end && is_finished(at);
    if (is_at_target) end_at_target(at);
    if (is_best) save_best(at);
    if (saves || is_at_target) save(at);
    if (here.stop == StopRequest::kSave) stop_ = StopRequest::kNone;
    if (results_ && here.stop != StopRequest::kNone)
      directory_.granted(here.stop, session_.log());
  }
  const Position at = position();
  enter(Stage::kEnd);
  const bool is_cut_short = at.step < engine_.plan.stop_at && !is_finished(at);
  end(at, is_cut_short ? here.stop : StopRequest::kNone);
  if (!is_cut_short) return ExitCode::kDone;
  return here.stop == StopRequest::kInterrupt ? ExitCode::kInterrupted
                                              : ExitCode::kStopped;
}

}  // namespace syncopate
