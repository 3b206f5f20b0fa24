#include "app/trainer.h"

#include <algorithm>

#include "app/audit.h"
#include "app/evaluator.h"
#include "base/clock.h"
#include "base/text.h"
#include "checkpoint/agreement.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

// Forward takes a third of a step, backward two: the usual count of
// multiply-adds.
constexpr double kForwardShare = 1.0 / 3;

}  // namespace

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
      collectives_(collectives),
      results_(results),
      replica_(*engine.context, *engine.model, engine.options.optimizer),
      schedule_(engine.schedule_of(engine.options, endpoint.rank())),
      bucketer_(engine.model->parameters(), engine.options.sync, collectives),
      stragglers_(engine.options, endpoint.rank(), endpoint.size()),
      faults_(engine.options.faults, endpoint.rank()),
      guard_(engine, replica_),
      skips_nonfinite_(engine.options.run.on_nonfinite == "skip"),
      checks_whole_gradient_(session.size() == 1 || skips_nonfinite_) {
  // In virtual time, messages start after backward in any case.
  if (session.size() > 1)
    for (const Bucket& bucket : bucketer_.buckets())
      segment_offsets_.push_back(bucket.offset);
  for (const Options& options : engine.phases)
    phases_.push_back({options.sync, options.optimizer,
                       engine.schedule_of(options, endpoint.rank())});
  scheme_ = make_scheme({.endpoint = endpoint,
                         .context = *engine.context,
                         .replica = replica_,
                         .model = *engine.model,
                         .sync = engine.options.sync,
                         .optimizer = engine.options.optimizer,
                         .schedule = schedule_,
                         .seed = static_cast<uint64_t>(engine.options.run.seed),
                         .total_steps = engine.plan.total_steps,
                         .steps_per_epoch = engine.plan.steps_per_epoch,
                         .batch_weight = engine.batch_weight(endpoint.rank()),
                         .collectives = collectives,
                         .directory = directory.path().string(),
                         .phases = phases_});
  recorder_ = std::make_unique<Recorder>(session, engine, endpoint, *scheme_,
                                         replica_, results);
}

// --- a step ------------------------------------------------------------------

void Trainer::enter(Stage stage, int64_t step) {
  activity().enter(stage, step);
  faults_.strike(stage, step);
}

// In one process a step takes virtual time only. Backward has run at once; its
// reports are replayed at the virtual moments at which they would have come,
// so that a bucket's messages start when its gradients are ready.
void Trainer::replay_in_virtual_time(double step_s) {
  const Time begin = endpoint_.now();
  compute_s_ = step_s;
  endpoint_.advance(step_s * kForwardShare);
  const double backward_s = step_s * (1 - kForwardShare);
  const auto reports = static_cast<double>(final_from_.size());
  for (const int64_t from : final_from_) {
    if (scheme_->abandons_step()) {
      compute_s_ = endpoint_.now() - begin;
      break;
    }
    endpoint_.advance(backward_s / reports);
    bucketer_.final_from(from, [this](const Bucket& b) { bucket_ready(b); });
  }
}

Batch Trainer::next_batch() {
  const AtStorage here;
  return feed_->next();
}

void Trainer::forward_backward(const Plan& plan) {
  const bool is_virtual = session_.size() == 1;
  const int64_t accumulate = engine_.options.data.accumulate;
  const double begin = monotonic_s();
  if (!is_virtual)
    stragglers_.sleep(plan.step, begin - started_s_, compute_s_ - slept_s_);
  slept_s_ = monotonic_s() - begin;
  const double waited_before_s = feed_->wait_s();
  engine_.device->fill_zero(replica_.gradients.data(),
                            replica_.gradients.size() * 4, *engine_.stream);
  bucketer_.start();
  guard_.start(scheme_->steps_done());
  pending_step_ = scheme_->steps_done();
  final_from_.clear();
  const auto on_final = [&](int64_t from) {
    if (checks_whole_gradient_)
      final_from_.push_back(from);
    else
      bucketer_.final_from(from, [this](const Bucket& b) { bucket_ready(b); });
  };
  for (int64_t i = 0; i < accumulate; ++i) {
    const Batch batch = next_batch();
    const StepSettings settings{
        .loss_samples = engine_.loss_samples(endpoint_.rank()),
        .dropout_seed = static_cast<uint64_t>(engine_.options.run.seed),
        .first_sample =
            engine_.sampler->first_sample(endpoint_.rank(), batches_seen_),
        .records = engine_.records_steps(),
        .segment_offsets = segment_offsets_};
    pending_.push_back(engine_.model->forward_backward(
        *engine_.context, replica_.view(), batch, settings,
        i + 1 == accumulate ? GradientListener(on_final) : GradientListener()));
    ++batches_seen_;
  }
  if (checks_whole_gradient_) {
    check_gradient(0, replica_.gradients.size());
    guard_.finish();
    if (!is_virtual)
      bucketer_.final_from(0, [this](const Bucket& b) { bucket_ready(b); });
  }
  const double waited_s = feed_->wait_s() - waited_before_s;
  compute_s_ = monotonic_s() - begin - waited_s;
  data_waited_s_ = waited_s;
  recorder_->waited_for_data(waited_s);
  if (is_virtual)
    replay_in_virtual_time(stragglers_.virtual_s(plan.step, endpoint_.now()));
}

// The steps until a stop takes effect, an evaluation and a checkpoint of twice
// their longest so far.
double Trainer::needed_to_stop_s() const {
  const auto lag = static_cast<double>(scheme_->stop_lag());
  return 2 * (lag * step_s_ + evaluation_s_ + checkpoint_expected_s());
}

// Of a checkpoint that none has timed yet: its bytes at the speed of a busy
// file system.
double Trainer::checkpoint_expected_s() const {
  constexpr double kBytesPerSecond = 100e6;
  return checkpoint_s_ > 0 ? checkpoint_s_
                           : checkpoint_bytes() / kBytesPerSecond;
}

double Trainer::checkpoint_bytes() const {
  const int64_t state =
      replica_.optimizer ? replica_.optimizer->state_elems() : 0;
  return 4.0 * static_cast<double>(endpoint_.size()) *
         static_cast<double>(replica_.parameters.size() +
                             replica_.buffers.size() + state);
}

// What this worker tells the others before it takes another step. What was
// once asked for stays.
Word Trainer::word() {
  stop_ = std::max(stop_, requested_stop());
  if (results_) stop_ = std::max(stop_, directory_.requested());
  if (time_limit_.is_near(needed_to_stop_s()))
    stop_ = std::max(stop_, StopRequest::kTimeLimit);
  return {.stop = static_cast<int>(stop_),
          .has_diverged = diverged_.has_value(),
          .step_s = compute_s_ + (session_.size() > 1 ? data_waited_s_ : 0)};
}

void Trainer::step(const Plan& plan) {
  enter(Stage::kStep, plan.step);
  engine_.steps_begun[endpoint_.rank()] = plan.step;
  const SyncTimes in_next = scheme_->take_times();
  const double begin = monotonic_s();
  // A GPU is done with the forward of the step before, and at work on the rest.
  settle(Settle::kWithoutWaiting);
  const double settled_s = monotonic_s() - begin;
  if (faults_.spoils("flip", scheme_->steps_done())) flip_bit();
  forward_backward(plan);
  if (session_.size() > 1) compute_s_ += settled_s;
  enter(Stage::kCollective, plan.step);
  scheme_->update(plan);
  scheme_->end_step(plan);
  if (engine_.device->kind() == DeviceKind::kCpu) settle(Settle::kAll);
  SyncTimes times = scheme_->take_times();
  compute_s_ += in_next.device_s + times.device_s;
  // Where the host runs ahead, only a whole step has a time of its own.
  if (collectives_ != nullptr)
    compute_s_ =
        std::max(0.0, monotonic_s() - begin - data_waited_s_ - times.exposed_s);
  times.add(in_next);
  recorder_->step_done(compute_s_, times);
  rate_ = plan.rate;
  boundary_s_ = endpoint_.now();
  // The first steps make plans and recordings, which no later one does.
  if (++steps_of_process_ > 3)
    step_s_ = std::max(step_s_, monotonic_s() - begin);
}

// Rows of the log do not wait for anybody: each worker closes a row when its
// own next step is behind it.
void Trainer::close_rows(int64_t worker_steps) {
  if (!recorder_->is_row_over(worker_steps)) return;
  settle(Settle::kWithoutWaiting);
  recorder_->step_done(0, scheme_->take_times());
  recorder_->close_rows(worker_steps, rate_);
}

// A step of others, while this worker takes none.
void Trainer::follow(const Plan& plan) {
  activity().progress();
  rate_ = plan.rate;
  boundary_s_ = endpoint_.now();
}

void Trainer::print_notes() {
  for (const std::string& note : scheme_->take_notes())
    if (results_) session_.log().line("{}", note);
}

// Steps of this worker, until there are none left before the boundary.
void Trainer::run_segment(const Boundary& from, int64_t until) {
  recorder_->start_clock();
  // Services begin with the first worker; each worker where it stopped. In
  // virtual time nobody goes on while another's clock is still the boundary's.
  endpoint_.set_clock(from.earliest);
  if (session_.size() == 1)
    recorder_->uncounted([this] {
      barrier(endpoint_, endpoint_.world_group(), tags::kControl);
    });
  scheme_->begin({from.worker_steps, until, from.earliest});
  endpoint_.set_clock(boundary_s_);
  print_notes();
  for (;;) {
    const Plan plan = scheme_->next(word());
    print_notes();
    if (plan.stop) break;
    close_rows(plan.worker_steps);
    {
      const AtStorage here;
      recorder_->write_rows();
      if (results_)
        session_.log().progress(plan.worker_steps / endpoint_.size(),
                                engine_.plan.stop_at);
    }
    if (plan.is_idle)
      follow(plan);
    else
      step(plan);
  }
  settle(Settle::kAll);
  scheme_->quiesce();
  recorder_->step_done(0, scheme_->take_times());
  engine_.stream->synchronize();
  recorder_->stop_clock();
}

// --- between steps -----------------------------------------------------------

// Where all stand, and what they have to say, before anything is evaluated,
// saved or called the end. Messages at a boundary count in no row and take no
// virtual time, so that a run may have one boundary more than another.
Trainer::Boundary Trainer::meet() {
  enter(Stage::kBoundary, scheme_->steps_done());
  check_parameters();
  const Word mine = word();
  std::vector<double> said = {static_cast<double>(scheme_->steps_done()),
                              static_cast<double>(mine.stop), boundary_s_};
  const size_t num_facts = said.size();
  const std::vector<double> seen = to_numbers(diverged_);
  said.insert(said.end(), seen.begin(), seen.end());
  Boundary here;
  recorder_->uncounted([&] {
    const auto all = all_gather(endpoint_, endpoint_.world_group(), said,
                                tags::kControl, Traffic::kControl);
    here.earliest = all[0][2];
    for (const std::vector<double>& worker : all) {
      here.worker_steps += static_cast<int64_t>(worker[0]);
      here.stop = std::max(
          here.stop, static_cast<StopRequest>(static_cast<int>(worker[1])));
      here.earliest = std::min(here.earliest, worker[2]);
      here.diverged =
          first_of(here.diverged, divergence_from(worker.data() + num_facts));
    }
  });
  return here;
}

// A period's end lies in (before, now].
bool Trainer::is_due(int64_t every, int64_t before, int64_t now) const {
  return every > 0 && now / every > before / every;
}

// The next evaluation, checkpoint or end, in worker_steps.
int64_t Trainer::next_boundary(int64_t worker_steps) const {
  const int64_t N = endpoint_.size();
  int64_t until = engine_.plan.stop_at * N;
  const int64_t audit_every = audits_have_boundaries(engine_.options.sync)
                                  ? engine_.plan.audit_every
                                  : 0;
  for (const int64_t every :
       {engine_.plan.eval_every, engine_.plan.checkpoint_every, audit_every})
    if (every > 0)
      until = std::min(until, (worker_steps / (every * N) + 1) * every * N);
  return until;
}

void Trainer::evaluate(const Position& at) {
  enter(Stage::kEvaluation, scheme_->steps_done());
  const double begin = monotonic_s();
  const SetPart part = evaluated_part(engine_.options);
  const Evaluation evaluation =
      evaluate_scheme(engine_, part, endpoint_, *scheme_);
  const bool is_best = recorder_->evaluation(at, evaluation);
  if (is_best && part == SetPart::kValidation)
    recorder_->test_of_best(
        at, evaluate_scheme(engine_, SetPart::kTest, endpoint_, *scheme_));
  scheme_->evaluated(evaluation.metrics[0], evaluation.metrics[1]);
  print_notes();
  evaluation_s_ = std::max(evaluation_s_, monotonic_s() - begin);
}

Ending Trainer::run() {
  enter(Stage::kStart, 0);
  start_or_resume();
  Boundary here = meet();
  const int64_t N = endpoint_.size();
  const auto position = [&] {
    return Position{here.worker_steps / N, here.worker_steps, rate_};
  };
  if (here.worker_steps >= engine_.plan.stop_at * N) {
    if (results_)
      session_.log().line("step {} of {}: nothing left to do", position().step,
                          engine_.plan.stop_at);
    if (results_ && here.worker_steps >= engine_.plan.total_steps * N)
      directory_.discard_requests(session_.log());
    return Ending::kFinished;
  }
  here.stop = StopRequest::kNone;  // a step at least
  while (here.stop <= StopRequest::kSave &&
         position().step < engine_.plan.stop_at) {
    const int64_t before = position().step;
    run_segment(here, next_boundary(here.worker_steps));
    here = meet();
    const Position at = position();
    const bool is_end = at.step >= engine_.plan.total_steps;
    recorder_->close_rows(at.worker_steps, rate_);
    if (is_end || here.diverged) recorder_->close_last_row(at);
    recorder_->write_all_rows();
    if (here.diverged) return end_diverged(at, *here.diverged);
    const bool saves = at.step >= engine_.plan.stop_at ||
                       here.stop != StopRequest::kNone ||
                       is_due(engine_.plan.checkpoint_every, before, at.step);
    // Wherever all meet, so that what is evaluated or saved was audited.
    if (engine_.plan.audit_every > 0) audit(at);
    if (is_end) scheme_->finish();
    if (is_end || is_due(engine_.plan.eval_every, before, at.step))
      evaluate(at);
    if (saves) save(at);
    if (here.stop == StopRequest::kSave) stop_ = StopRequest::kNone;
    if (results_ && here.stop != StopRequest::kNone)
      directory_.granted(here.stop, session_.log());
  }
  const Position at = position();
  enter(Stage::kEnd, scheme_->steps_done());
  const bool is_finished = at.step >= engine_.plan.total_steps;
  const bool is_cut_short = at.step < engine_.plan.stop_at;
  recorder_->finish(at, is_finished ? "finished" : "stopped",
                    name_of(is_cut_short ? here.stop : StopRequest::kNone));
  if (results_) results_->commit();
  if (results_ && is_finished) directory_.discard_requests(session_.log());
  if (!is_cut_short) return Ending::kFinished;
  return here.stop == StopRequest::kInterrupt ? Ending::kInterrupted
                                              : Ending::kStopped;
}

}  // namespace syncopate
