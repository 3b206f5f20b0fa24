#include "app/trainer.h"

#include <algorithm>
#include <cmath>

#include "app/evaluator.h"
#include "base/clock.h"
#include "base/text.h"
#include "checkpoint/agreement.h"
#include "comm/tags.h"
#include "ops/reduce.h"

namespace syncopate {
namespace {

EvalModel eval_model(const std::string& keyword) {
  if (keyword == "average") return EvalModel::kAverage;
  return keyword == "rank0" ? EvalModel::kRank0 : EvalModel::kEach;
}

// Forward takes a third of a step, backward two: the usual count of
// multiply-adds.
constexpr double kForwardShare = 1.0 / 3;

double speed_of(const ComputeOptions& compute, int rank) {
  if (compute.speed.empty()) return 1;
  return compute.speed.size() == 1 ? compute.speed[0] : compute.speed[rank];
}

}  // namespace

Trainer::Trainer(Session& session,
                 Engine& engine,
                 const RunDirectory& directory,
                 Endpoint& endpoint,
                 DeviceCollectives* collectives,
                 Results* results)
    : session_(session),
      engine_(engine),
      directory_(directory),
      endpoint_(endpoint),
      collectives_(collectives),
      results_(results),
      replica_(*engine.context, *engine.model, engine.options.optimizer),
      schedule_(engine.options.schedule,
                engine.scaled_lr,
                engine.plan.horizon,
                engine.plan.steps_per_epoch),
      bucketer_(engine.model->parameters().num_elems(),
                bucket_elems(engine.options.sync, collectives)),
      recorder_(session, engine, endpoint, results) {
  // In virtual time, messages start after backward in any case.
  if (session.size() > 1)
    for (const Bucket& bucket : bucketer_.buckets())
      segment_offsets_.push_back(bucket.offset);
  scheme_ = make_scheme(
      {.endpoint = endpoint,
       .context = *engine.context,
       .replica = replica_,
       .model = *engine.model,
       .sync = engine.options.sync,
       .optimizer = engine.options.optimizer,
       .schedule = schedule_,
       .stop_at_worker_steps = engine.plan.stop_at * endpoint.size(),
       .collectives = collectives});
}

// --- start, resume, save -----------------------------------------------------

std::map<std::string, std::string> Trainer::facts() const {
  return {{"data", engine_.data_digest()},
          {"world", session_.size() > 1 ? "mpi" : "inproc"}};
}

void Trainer::visit_state(StateVisitor& visitor) {
  scheme_->visit_state(visitor);
  visitor.visit(Owner::kShared, "batches_seen", std::span(&batches_seen_, 1));
  recorder_.visit_state(visitor);
  visitor.visit(Owner::kWorker, "virtual_s", std::span(&boundary_s_, 1));
  if (session_.size() > 1) boundary_s_ = 0;  // of a run in one process
}

void Trainer::start_or_resume() {
  const std::optional<FoundCheckpoint> found = find_checkpoint();
  if (found)
    resume(*found);
  else
    start_fresh();
  if (results_)
    write_file_atomically(directory_.input(), echo_input(engine_.input));
  feed_ = Feed::make(engine_, endpoint_.rank(), batches_seen_);
}

// A run goes on from its own newest checkpoint; the one that
// checkpoint.resume names is where a run without any starts.
std::optional<FoundCheckpoint> Trainer::find_checkpoint() {
  const std::string& mode = engine_.options.checkpoint.resume;
  std::optional<FoundCheckpoint> found;
  try {
    if (mode != "none")
      found = agree_on_checkpoint(endpoint_, directory_.checkpoints(), {});
    if (!found && mode != "none" && mode != "auto")
      found = agree_on_checkpoint(endpoint_, directory_.checkpoints(),
                                  fs::path(mode));
  } catch (const Error& error) {
    throw AgreedError(error);  // found by all or by none
  }
  return found;
}

void Trainer::start_fresh() {
  if (results_) {
    directory_.set_results_aside(session_.log());
    results_->provenance("restarts", int64_t{0});
  }
  std::vector<float> parameters(replica_.parameters.size());
  std::vector<float> buffers(replica_.buffers.size());
  engine_.model->initialise(parameters, buffers,
                            static_cast<uint64_t>(engine_.options.run.seed));
  // Equal by construction on equal machines; sent all the same, since the
  // mathematics library of another node may round differently.
  broadcast(endpoint_, endpoint_.world_group(),
            bytes_span(std::span(parameters)), 0, tags::kCollective,
            Traffic::kBroadcast);
  replica_.parameters.assign(parameters);
  replica_.buffers.assign(buffers);
  recorder_.forget_traffic();
}

// What speaks against going on from a checkpoint, one line each. Keys are
// rank 0's affair; each rank has data of its own.
std::vector<std::string> Trainer::conflicts_with(
    const CheckpointFacts& then) const {
  std::vector<std::string> conflicts;
  if (endpoint_.rank() == 0)
    conflicts = resume_conflicts(then.input, engine_.input.resolved);
  if (then.workers != endpoint_.size())
    conflicts.push_back(fmt::format(
        "run.workers: the checkpoint is of {} workers, this run has {}",
        then.workers, endpoint_.size()));
  const auto data = then.extra.find("data");
  if (data != then.extra.end() && data->second != engine_.data_digest())
    conflicts.push_back("data: not the data that the checkpoint was made on");
  return conflicts;
}

void Trainer::load(const FoundCheckpoint& found) {
  const std::vector<std::string> conflicts = conflicts_with(found.facts);
  if (!conflicts.empty())
    fail(ExitCode::kBadInput, "{}: cannot resume: {}", found.folder.string(),
         join(conflicts, "\nerror: "));
  load_checkpoint(found, endpoint_.rank(),
                  [this](StateVisitor& visitor) { visit_state(visitor); });
  if (!results_ || !fs::exists(directory_.results())) return;
  // Rows of another run, whose checkpoint this is not, are not gone on from.
  if (found.folder.parent_path() == directory_.checkpoints())
    results_->resume(found.facts.worker_steps);
  else
    directory_.set_results_aside(session_.log());
}

void Trainer::resume(const FoundCheckpoint& found) {
  Outcome may_resume;
  recorder_.uncounted([&] {
    may_resume = agree_on_outcome(endpoint_, attempt([&] { load(found); }));
  });
  if (!may_resume.ok())
    throw AgreedError(Error(may_resume.code, may_resume.line));
  endpoint_.set_clock(boundary_s_);
  recorder_.forget_earlier_process();
  saved_at_ = found.facts.worker_steps;
  if (!results_) return;
  for (const std::string& warning : found.warnings)
    session_.log().warning(warning);
  recorder_.resume_clock(found.facts.step);
  results_->provenance(
      "restarts", results_->provenance_integer("restarts").value_or(0) + 1);
  session_.log().line("resumed from {} (step {})", found.folder.string(),
                      found.facts.step);
}

void Trainer::save(const Position& at) {
  if (saved_at_ == at.worker_steps) return;
  const double begin = monotonic_s();
  if (results_) results_->commit();
  scheme_->quiesce();
  fs::path folder;
  try {
    recorder_.uncounted([&] {
      folder = save_checkpoint(
          endpoint_, directory_.checkpoints(),
          {.worker_steps = at.worker_steps,
           .step = at.step,
           .workers = endpoint_.size(),
           .scheme = engine_.options.sync.scheme,
           .input = engine_.input.resolved,
           .extra = facts()},
          [this](StateVisitor& visitor) { visit_state(visitor); },
          static_cast<int>(engine_.options.checkpoint.keep));
    });
  } catch (const Error& error) {
    throw AgreedError(error);  // save_checkpoint fails on all or on none
  }
  if (results_)
    session_.log().line("checkpoint committed: {}", folder.string());
  saved_at_ = at.worker_steps;
  checkpoint_s_ = std::max(checkpoint_s_, monotonic_s() - begin);
}

// --- a step ------------------------------------------------------------------

// In one process a step takes virtual time only. Backward has run at once; its
// reports are replayed at the virtual moments at which they would have come,
// so that a bucket's messages start when its gradients are ready.
void Trainer::replay_in_virtual_time() {
  const double step_s = engine_.options.compute.step_s /
                        speed_of(engine_.options.compute, endpoint_.rank());
  endpoint_.advance(step_s * kForwardShare);
  const double backward_s = step_s * (1 - kForwardShare);
  const auto reports = static_cast<double>(final_from_.size());
  for (const int64_t from : final_from_) {
    endpoint_.advance(backward_s / reports);
    bucketer_.final_from(
        from, [this](const Bucket& b) { scheme_->gradient_ready(b); });
  }
  compute_s_ = step_s;
}

void Trainer::forward_backward() {
  const bool is_virtual = session_.size() == 1;
  const int64_t accumulate = engine_.options.data.accumulate;
  const double begin = monotonic_s();
  const double waited_before_s = feed_->wait_s();
  engine_.device->fill_zero(replica_.gradients.data(),
                            replica_.gradients.size() * 4, *engine_.stream);
  bucketer_.start();
  final_from_.clear();
  const auto on_final = [&](int64_t from) {
    if (is_virtual)
      final_from_.push_back(from);
    else
      bucketer_.final_from(
          from, [this](const Bucket& b) { scheme_->gradient_ready(b); });
  };
  for (int64_t i = 0; i < accumulate; ++i) {
    const Batch batch = feed_->next();
    const StepSettings settings{
        .loss_samples = static_cast<double>(batch.samples * accumulate),
        .dropout_seed = static_cast<uint64_t>(engine_.options.run.seed),
        .first_sample = static_cast<uint64_t>(
            (batches_seen_ * endpoint_.size() + endpoint_.rank()) *
            engine_.options.data.batch),
        .records = engine_.records_steps(),
        .segment_offsets = segment_offsets_};
    pending_.push_back(engine_.model->forward_backward(
        *engine_.context, replica_.view(), batch, settings,
        i + 1 == accumulate ? GradientListener(on_final) : GradientListener()));
    ++batches_seen_;
  }
  const double waited_s = feed_->wait_s() - waited_before_s;
  compute_s_ = monotonic_s() - begin - waited_s;
  data_waited_s_ = waited_s;
  recorder_.waited_for_data(waited_s);
  if (is_virtual) replay_in_virtual_time();
}

// Looks at the sums of the step whose batches are pending.
void Trainer::settle() {
  if (pending_.empty()) return;
  MetricSums sums{std::vector<double>(engine_.model->metrics().size(), 0.0), 0};
  for (const PendingSums& batch : pending_) sums.add(batch.get());
  pending_.clear();
  has_diverged_ |= !std::isfinite(sums.values[0]);
  recorder_.metrics(sums);
}

bool Trainer::time_is_short() const {
  const double limit = engine_.options.run.time_limit_s;
  // The step under way, the next one, an evaluation and a checkpoint of twice
  // their longest so far.
  const double needed = 2 * (step_s_ + evaluation_s_ + checkpoint_s_);
  return limit > 0 && monotonic_s() - session_.started_s() + needed >= limit;
}

Trainer::Agreed Trainer::step(const Plan& plan) {
  const double begin = monotonic_s();
  // A GPU is done with the forward of the step before, and at work on the rest.
  settle();
  const double settled_s = monotonic_s() - begin;
  start_agreement();
  forward_backward();
  if (session_.size() > 1) compute_s_ += settled_s;
  scheme_->update(plan);
  scheme_->end_step(plan);
  if (engine_.device->kind() == DeviceKind::kCpu) settle();
  const SyncTimes times = scheme_->take_times();
  compute_s_ += times.device_s;
  // Where the host runs ahead, only a whole step has a time of its own.
  if (collectives_ != nullptr)
    compute_s_ =
        std::max(0.0, monotonic_s() - begin - data_waited_s_ - times.exposed_s);
  recorder_.step_done(compute_s_, times);
  const Agreed agreed = finish_agreement();
  // The first steps make plans and recordings, which no later one does.
  if (++steps_of_process_ > 3)
    step_s_ = std::max(step_s_, monotonic_s() - begin);
  return agreed;
}

// What was asked for, and seen, before this step travels while it computes.
void Trainer::start_agreement() {
  const StopRequest asked =
      std::max(requested_stop(),
               time_is_short() ? StopRequest::kTimeLimit : StopRequest::kNone);
  // The lowest rank that diverged has the greatest figure.
  verdict_ = {static_cast<double>(asked),
              has_diverged_
                  ? static_cast<double>(endpoint_.size() - endpoint_.rank())
                  : 0.0};
  agreement_ = endpoint_.start("agreement", [this](Endpoint& endpoint) {
    agree(endpoint, endpoint.world_group(), verdict_, Combine::kMax,
          tags::kControl);
  });
}

Trainer::Agreed Trainer::finish_agreement() {
  endpoint_.join(agreement_);
  return {
      static_cast<StopRequest>(static_cast<int>(verdict_[0])),
      verdict_[1] > 0 ? endpoint_.size() - static_cast<int>(verdict_[1]) : -1};
}

// --- between steps -----------------------------------------------------------

bool Trainer::is_due(int64_t every, int64_t step) const {
  return every > 0 && step % every == 0;
}

void Trainer::evaluate(const Position& at) {
  const double begin = monotonic_s();
  const EvalModel which = eval_model(engine_.options.eval.model);
  DeviceVector<float> parameters(*engine_.device, *engine_.stream,
                                 replica_.parameters.size());
  DeviceVector<float> buffers(*engine_.device, *engine_.stream,
                              replica_.buffers.size());
  scheme_->quiesce();
  scheme_->evaluation_model(which, parameters, buffers);
  const ReplicaView view{parameters, {}, buffers};
  if (engine_.options.eval.batchnorm == "recomputed" && !buffers.empty())
    recompute_statistics(engine_, view);

  if (which != EvalModel::kEach) {
    const MetricSums mine =
        evaluate_batches(engine_, view, endpoint_.rank(), endpoint_.size());
    recorder_.evaluation(at, sum_over_workers(endpoint_, mine), {});
  } else {
    evaluate_each(at, view);
  }
  evaluation_s_ = std::max(evaluation_s_, monotonic_s() - begin);
}

void Trainer::evaluate_each(const Position& at, const ReplicaView& view) {
  const MetricSums mine = evaluate_batches(engine_, view, 0, 1);
  std::vector<double> values = mine.values;
  values.push_back(mine.samples);
  MetricSums all{std::vector<double>(mine.values.size(), 0.0), 0};
  std::vector<MetricSums> by_worker;
  for (std::vector<double>& worker :
       all_gather(endpoint_, endpoint_.world_group(), values, tags::kEvaluation,
                  Traffic::kEvaluation)) {
    const double samples = worker.back();
    worker.pop_back();
    by_worker.push_back({worker, samples});
    all.add(by_worker.back());
  }
  recorder_.evaluation(at, all, by_worker);
}

// Before a state is evaluated, saved or called the end, all agree on what its
// last step has done to it. Messages at a boundary count in no row and take no
// virtual time, so that a run may have one boundary more than another.
Trainer::Agreed Trainer::look_before_boundary() {
  has_diverged_ |= first_nonfinite(*engine_.context, replica_.parameters) >= 0;
  Agreed agreed;
  recorder_.uncounted([&] {
    start_agreement();
    agreed = finish_agreement();
  });
  return agreed;
}

Ending Trainer::run() {
  start_or_resume();
  Position at{scheme_->steps_done(), scheme_->worker_steps_done(), 0};
  if (scheme_->next().stop) {
    if (results_)
      session_.log().line("step {} of {}: nothing left to do", at.step,
                          engine_.plan.stop_at);
    return Ending::kFinished;
  }
  Agreed agreed;
  while (agreed.stop == StopRequest::kNone) {
    const Plan plan = scheme_->next();
    if (plan.stop) break;
    recorder_.start_clock();
    agreed = step(plan);
    at = {plan.step + 1, scheme_->worker_steps_done(), plan.rate};
    if (results_) session_.log().progress(at.step, engine_.plan.stop_at);

    if (session_.size() == 1) boundary_s_ = endpoint_.now();
    const bool is_end = at.step >= engine_.plan.total_steps;
    const bool evaluates = is_end || is_due(engine_.plan.eval_every, at.step);
    const bool saves = at.step >= engine_.plan.stop_at ||
                       agreed.stop != StopRequest::kNone ||
                       is_due(engine_.plan.checkpoint_every, at.step);
    const bool logs = is_end || is_due(engine_.plan.log_every, at.step);
    if (logs || evaluates || saves || agreed.diverged_rank >= 0) settle();
    if (evaluates || saves) {
      scheme_->quiesce();
      recorder_.step_done(0, scheme_->take_times());
      engine_.stream->synchronize();
    }
    recorder_.stop_clock();
    if (agreed.diverged_rank < 0 && (evaluates || saves))
      agreed.diverged_rank = look_before_boundary().diverged_rank;
    if (agreed.diverged_rank >= 0) return end_diverged(at, agreed);
    if (logs) recorder_.row(at);
    if (evaluates) evaluate(at);
    if (saves) save(at);
    endpoint_.set_clock(boundary_s_);
  }
  const bool is_finished = at.step >= engine_.plan.total_steps;
  recorder_.finish(at, is_finished ? "finished" : "stopped");
  if (results_) results_->commit();
  if (at.step >= engine_.plan.stop_at) return Ending::kFinished;
  return agreed.stop == StopRequest::kInterrupt ? Ending::kInterrupted
                                                : Ending::kStopped;
}

Ending Trainer::end_diverged(const Position& at, const Agreed& agreed) {
  recorder_.row(at);
  recorder_.finish(at, "diverged");
  if (results_) {
    results_->commit();
    std::fprintf(stderr,
                 "error: diverged: the loss of worker %d is not finite at step "
                 "%lld or the one before (results kept, this state is not "
                 "saved)\n",
                 agreed.diverged_rank, static_cast<long long>(at.step));
  }
  return Ending::kDiverged;
}

}  // namespace syncopate
