#include "train/worker_step.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/collectives.h"
#include "comm/tags.h"
#include "comm/trace.h"
#include "run/signals.h"
#include "tensor/visit_numbers.h"
#include "train/audit.h"
#include "train/checkpoint_model.h"
#include "train/compute_trace.h"

namespace syncopate {
namespace {

// Sleeps in short parts: the watchdog sees no hang, and a request to stop ends
// the pause.
void pause_in_wall_time(double seconds) {
  constexpr double kPart_s = 0.1;
  const double until_s = monotonic_s() + seconds;
  while (requested_stop() == StopRequest::kNone) {
    const double left_s = until_s - monotonic_s();
    if (left_s <= 0) return;
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(left_s, kPart_s)));
    activity().progress();
  }
}

void visit_later(StateVisitor& visitor,
                 std::vector<LinkClocks::Interval>& intervals) {
  std::vector<int64_t> kinds;
  std::vector<double> times;
  for (const auto& [kind, from, until] : intervals) {
    kinds.push_back(kind);
    times.insert(times.end(), {from, until});
  }
  visitor.visit(Owner::kWorker, "links/taken_later_kind", std::span(kinds));
  visitor.visit(Owner::kWorker, "links/taken_later_s", std::span(times));
  for (size_t i = 0; i < intervals.size(); ++i)
    intervals[i] = {kinds[i], times[2 * i], times[2 * i + 1]};
}

// The forward pass's share of a step's multiply-adds.
constexpr double kForwardShare = 1.0 / 3;

}  // namespace

WorkerStep::WorkerStep(Engine& engine,
                       Endpoint& endpoint,
                       DeviceCollectives* collectives,
                       const std::string& directory,
                       StepListener* listener)
    : engine_(engine),
      endpoint_(endpoint),
      collectives_(collectives),
      listener_(listener),
      trace_(endpoint.trace()),
      replica_(*engine.context,
               *engine.model,
               engine.options.optimizer,
               engine.copies()),
      schedule_(engine.schedule_of(engine.options, endpoint.rank())),
      bucketer_(engine.model->parameters(), engine.options.sync, collectives),
      counts_rows_(engine.device->kind() == DeviceKind::kNone &&
                   engine.sends_rows()),
      stragglers_(
          engine.options,
          endpoint.rank(),
          endpoint.size(),
          engine.recorded_durations ? &*engine.recorded_durations : nullptr),
      faults_(engine.options.faults, endpoint.rank()),
      guard_(engine, replica_),
      is_virtual_(endpoint.has_virtual_time()),
      skips_nonfinite_(engine.options.run.on_nonfinite == OnNonfinite::kSkip),
      checks_whole_gradient_(is_virtual_ || skips_nonfinite_) {
  if (trace_ != nullptr && !is_virtual_ && listener_ == nullptr) {
    compute_trace_ = std::make_unique<ComputeTrace>(engine, *trace_);
    listener_ = compute_trace_.get();
  }
  // In virtual time nothing is sent before the backward pass has ended.
  if (!is_virtual_)
    for (const Bucket& bucket : bucketer_.buckets())
      segment_offsets_.push_back(bucket.offset);
  for (const Options& options : engine.phases)
    phases_.push_back({options.sync, options.optimizer,
                       engine.schedule_of(options, endpoint.rank())});
  update_time_ = {engine.options.compute.update_s, [this] { replay_update(); }};
  const bool shares_gpu =
      is_virtual_ && engine.device->kind() == DeviceKind::kCuda;
  scheme_ =
      make_scheme({.endpoint = endpoint,
                   .context = *engine.context,
                   .replica = replica_,
                   .model = *engine.model,
                   .sync = engine.options.sync,
                   .optimizer = engine.options.optimizer,
                   .schedule = schedule_,
                   .seed = static_cast<uint64_t>(engine.options.run.seed),
                   .total_steps = engine.plan.total_steps,
                   .steps_per_epoch = engine.plan.steps_per_epoch,
                   .batches_per_step = engine.options.data.accumulate,
                   .batch_weights = engine.batch_weights,
                   .collectives = collectives,
                   .shared_sums = shares_gpu ? &engine.shared_sums : nullptr,
                   .shared_stop = is_virtual_ ? &engine.shared_stop : nullptr,
                   .update_time = is_virtual_ ? &update_time_ : nullptr,
                   .directory = directory,
                   .phases = phases_});
  const EvalOptions& eval = engine.options.eval;
  if (eval.model != EvalChoice::kEma) return;
  replica_.average = &average_.emplace(
      *engine.context, replica_.parameters.size(), replica_.buffers.size(),
      eval.ema_decay, eval.ema_every,
      engine.options.schedule.warmup.steps(engine.plan.steps_per_epoch));
}

WorkerStep::~WorkerStep() = default;

// --- a step, in the order in which it happens --------------------------------

StepRequest WorkerStep::step_request(int stop) const {
  return {.stop = stop,
          .has_diverged = diverged_.has_value(),
          .step_s = cost_.compute_s + (is_virtual_ ? 0 : cost_.data_wait_s)};
}

StepPlan WorkerStep::next(int stop) {
  // Messages that the scheme sends before a step belong to it.
  engine_.steps_begun[endpoint_.rank()] = scheme_->steps_done();
  StepRequest said = step_request(stop);
  said.has_paused = pause();
  return scheme_->next(said);
}

// Once per step, however often the scheme is asked for it.
bool WorkerStep::pause() {
  const int64_t step = scheme_->steps_done();
  if (step == std::exchange(paused_for_, step)) return false;
  const Time begin = endpoint_.now();
  const double pause_s = stragglers_.pause_s(
      step, is_virtual_ ? begin : monotonic_s() - started_s_);
  if (pause_s == 0) return false;
  if (is_virtual_)
    endpoint_.advance(pause_s);
  else
    pause_in_wall_time(pause_s);
  if (trace_ != nullptr) trace_->wait("pause", begin, endpoint_.now());
  return true;
}

StepCost WorkerStep::take(const StepPlan& plan) {
  enter(Stage::kStep, plan.step);
  plan_ = plan;
  last_worker_steps_ = plan.worker_steps;
  update_average();
  scheme_->begin_step(plan);
  const SyncTimes before = scheme_->take_times();
  const double begin_s = monotonic_s();

  // By now a GPU has finished the last step's forward pass and is working on
  // the remainder of that step.
  read(Numbers::kArrived);
  const double read_s = monotonic_s() - begin_s;
  if (faults_.spoils(FaultKind::kFlip, scheme_->steps_done())) flip_bit();

  const double compute_begin_s = monotonic_s();
  const double waited_before_s = data_wait_s();
  sleep_as_straggler(plan.step);
  clear_gradients();
  forward_backward();
  cost_.data_wait_s = data_wait_s() - waited_before_s;
  cost_.compute_s = monotonic_s() - compute_begin_s - cost_.data_wait_s;
  if (is_virtual_) {
    cost_.compute_s = replay(plan.step);
  } else {
    cost_.compute_s += read_s;
    scheme_->abandons_step();  // update() knows the answer
  }

  enter(Stage::kCollective, plan.step);
  cost_.update_s = 0;
  update_time_.is_spent = false;
  scheme_->update(plan);
  if (is_virtual_ && !update_time_.is_spent) replay_update();
  scheme_->end_step(plan);
  average_due_ = scheme_->steps_done();
  average_schedule_steps_ = plan.worker_steps / endpoint_.size() + 1;
  update_average();
  if (listener_ != nullptr) listener_->step_ends();

  if (engine_.device->kind() == DeviceKind::kCpu) read(Numbers::kAll);
  const StepCost uncounted = add_up(before, begin_s);
  rate_ = plan.rate;
  ended_at_ = endpoint_.now();
  if (trace_ != nullptr) trace_->at_step(plan.step + 2);  // from 1, the next
  return uncounted;
}

SyncTimes WorkerStep::take_times_of_next() {
  const SyncTimes times = scheme_->take_times();
  counted_device_s_ += times.device_s;
  return times;
}

void WorkerStep::update_average() {
  if (!average_ || average_due_ == 0 || scheme_->is_pulling()) return;
  average_->update(average_due_, average_schedule_steps_, replica_.parameters,
                   replica_.buffers);
  average_due_ = 0;
}

void WorkerStep::enter(Stage stage, int64_t step) {
  activity().enter(stage, step);
  faults_.strike(stage, step);
}

// In virtual time, replay() takes longer instead.
void WorkerStep::sleep_as_straggler(int64_t step) {
  if (is_virtual_) return;
  const double begin_s = monotonic_s();
  stragglers_.sleep(step, begin_s - started_s_, cost_.compute_s - slept_s_);
  slept_s_ = monotonic_s() - begin_s;
  if (trace_ != nullptr && slept_s_ > 1e-6)
    trace_->compute("straggling", begin_s, begin_s + slept_s_);
}

void WorkerStep::clear_gradients() {
  if (listener_ != nullptr) listener_->step_begins();
  if (engine_.computes()) replica_.gradients.clear(*engine_.context);
  bucketer_.start();
  guard_.start(scheme_->steps_done());
  pending_step_ = scheme_->steps_done();
  final_from_.clear();
}

void WorkerStep::forward_backward() {
  if (!engine_.computes()) {
    final_from_ = engine_.model->gradient_reports();
    if (counts_rows_) count_rows();
    return;
  }
  const int64_t accumulate = engine_.options.data.accumulate;
  for (int64_t i = 0; i < accumulate; ++i) {
    const Batch batch = [this] {
      const AtStorage here;
      return feed_->next();
    }();
    if (listener_ != nullptr) listener_->batch_arrives();
    const StepSettings settings{
        .loss_samples = engine_.loss_samples(endpoint_.rank()),
        .dropout_seed = static_cast<uint64_t>(engine_.options.run.seed),
        .first_sample =
            engine_.sampler->first_sample(endpoint_.rank(), batches_seen_),
        .records = engine_.records_steps(),
        .segment_offsets = segment_offsets_};
    GradientListener on_final;
    if (i + 1 == accumulate)
      on_final = [this](int64_t from) { gradients_are_final(from); };
    pending_.push_back(engine_.model->forward_backward(
        *engine_.context, replica_.view(), batch, settings, on_final));
    ++batches_seen_;
    if (listener_ != nullptr) listener_->backward_ends(pending_.back());
  }
  if (!checks_whole_gradient_) return;
  check_gradient(0, replica_.gradients.size());
  guard_.finish();
  if (!is_virtual_) send_buckets(0);
}

void WorkerStep::count_rows() {
  const int64_t accumulate = engine_.options.data.accumulate;
  std::vector<int64_t> counts;
  for (const auto& rows : engine_.problem->touched_rows(
           engine_, endpoint_.rank(), batches_seen_, accumulate))
    counts.push_back(std::ssize(rows));
  replica_.gradients.set_touched_rows(std::move(counts));
  batches_seen_ += accumulate;
}

// Called during the backward pass, the rest of which overlaps with the messages
// sent here.
void WorkerStep::gradients_are_final(int64_t from) {
  if (checks_whole_gradient_)
    final_from_.push_back(from);
  else
    send_buckets(from);
}

void WorkerStep::send_buckets(int64_t from) {
  bucketer_.final_from(from, [this](const Bucket& bucket) { send(bucket); });
}

void WorkerStep::send(const Bucket& bucket) {
  if (!checks_whole_gradient_) {
    check_gradient(bucket.offset, bucket.elems);
    if (bucket.is_last) guard_.finish();
  }
  scheme_->gradient_ready(bucket, plan_);
}

// In one process a step takes virtual time only. The backward pass has already
// run; its reports are replayed at the virtual times at which they would have
// come, so that a bucket is sent when its gradients would be final: during the
// backward pass of the last batch or, if steps may be skipped, after it.
// Returns the virtual seconds of the forward and backward passes.
double WorkerStep::replay(int64_t step) {
  const Time begin = endpoint_.now();
  const double step_s = stragglers_.virtual_s(step, begin);
  const double batch_s =
      step_s / static_cast<double>(engine_.options.data.accumulate);
  if (engine_.options.data.accumulate > 1) {
    endpoint_.advance_ahead(step_s - batch_s);
    if (trace_ != nullptr)
      trace_->compute("earlier batches", begin, endpoint_.now());
  }
  const Time last_batch = endpoint_.now();
  endpoint_.advance_ahead(batch_s * kForwardShare);
  const Time has_loss = endpoint_.now();
  if (trace_ != nullptr) trace_->compute("forward", last_batch, has_loss);
  const double backward_s = batch_s * (1 - kForwardShare);
  const auto reports = static_cast<double>(final_from_.size());
  bool is_abandoned = false;
  for (const int64_t from : final_from_) {
    is_abandoned = scheme_->abandons_step();
    if (is_abandoned) break;
    endpoint_.advance_ahead(backward_s / reports);
    if (!skips_nonfinite_) send_buckets(from);
  }
  if (skips_nonfinite_ && !is_abandoned) send_buckets(0);
  if (trace_ != nullptr) trace_->compute("backward", has_loss, endpoint_.now());
  if (is_abandoned) return endpoint_.now() - begin;
  endpoint_.advance(0);
  return step_s;
}

void WorkerStep::replay_update() {
  const Time begin = endpoint_.now();
  update_time_.is_spent = true;
  cost_.update_s = stragglers_.update_s(plan_.step, begin);
  if (cost_.update_s == 0) return;
  endpoint_.advance(cost_.update_s);
  if (trace_ != nullptr) trace_->compute("optimizer", begin, endpoint_.now());
}

// Returns the cost without what take_times_of_next() has returned of it.
StepCost WorkerStep::add_up(const SyncTimes& in_next, double begin_s) {
  cost_.sync = scheme_->take_times();
  cost_.compute_s += in_next.device_s + cost_.sync.device_s;
  // If the host runs ahead, only the duration of a whole step is known.
  if (collectives_ != nullptr)
    cost_.compute_s =
        std::max(0.0, monotonic_s() - begin_s - cost_.data_wait_s -
                          cost_.sync.exposed_s);
  cost_.sync.add(in_next);
  const StepCost uncounted = cost_;
  cost_.compute_s += std::exchange(counted_device_s_, 0);
  // The first steps create plans and recordings; later ones do not.
  const double step_s = monotonic_s() - begin_s;
  if (++steps_of_process_ > 3)
    longest_s_ = std::max(longest_s_, step_s);
  else
    shortest_first_s_ =
        steps_of_process_ == 1 ? step_s : std::min(shortest_first_s_, step_s);
  return uncounted;
}

// --- a segment ---------------------------------------------------------------

void WorkerStep::open_feed() {
  if (engine_.computes())
    feed_ =
        engine_.problem->make_feed(engine_, endpoint_.rank(), batches_seen_);
}

// Rank 0 alone writes files at a boundary: what others wait for it is no part
// of their next step.
void WorkerStep::meet_at(Time earliest) {
  endpoint_.set_clock(earliest);
  barrier(endpoint_, endpoint_.world_group(), tags::kControl);
  endpoint_.leave_boundary(earliest);
}

void WorkerStep::begin(const Segment& segment) {
  // What the last segment left to do is done as after a resume.
  if (average_due_ != 0)
    average_schedule_steps_ = segment.from / endpoint_.size();
  scheme_->begin(segment);
  endpoint_.set_clock(ended_at_);
  // A pause before the boundary counts for nothing if it has set clocks back.
  if (is_virtual_) paused_for_ = -1;
  if (trace_ != nullptr) trace_->at_step(scheme_->steps_done() + 1);
  if (scheme_->resume()) ended_at_ = endpoint_.now();
}

void WorkerStep::follow(const StepPlan& plan) {
  activity().progress();
  rate_ = plan.rate;
  ended_at_ = endpoint_.now();
}

void WorkerStep::end() {
  endpoint_.come_to_boundary();
  read(Numbers::kAll);
  update_average();
  if (trace_ != nullptr) trace_->pause();
  scheme_->quiesce();
  engine_.stream->synchronize();
  if (compute_trace_ != nullptr) compute_trace_->finish();
}

void WorkerStep::finish(RunEnd end) {
  if (trace_ != nullptr) trace_->at_step(scheme_->steps_done());
  scheme_->finish(end);
  update_average();
  if (trace_ != nullptr) trace_->pause();
}

WorkerStep::Progress WorkerStep::agree_on_progress(int stop) {
  const Group world = endpoint_.world_group();
  double steps = static_cast<double>(scheme_->steps_done());
  double most[] = {static_cast<double>(stop), -ended_at_,
                   diverged_ ? 1.0 : 0.0};
  agree(endpoint_, world, std::span(&steps, 1), Combine::kCount,
        tags::kControl);
  agree(endpoint_, world, most, Combine::kMax, tags::kControl);
  return {.worker_steps = static_cast<int64_t>(steps),
          .stop = static_cast<int>(most[0]),
          .earliest = -most[1],
          .any_diverged = most[2] > 0};
}

// --- state -------------------------------------------------------------------

void WorkerStep::visit_state(StateVisitor& visitor) {
  endpoint_.set_clock(ended_at_);  // schemes compute future times from it
  scheme_->visit_state(visitor);
  // As the last next() left it, for messages before that of a resumed run.
  engine_.steps_begun[endpoint_.rank()] = scheme_->steps_done();
  if (average_) {
    // Replicas that are equal only at boundaries have different averages.
    const SyncOptions& sync = engine_.options.sync;
    const bool is_equal =
        keeps_replicas_equal(sync) && audits_have_boundaries(sync);
    const Owner owner = is_equal ? Owner::kShared : Owner::kWorker;
    visitor.visit_device_range(owner, kEmaRanges.parameters,
                               engine_.model->parameters(),
                               average_->parameters());
    visitor.visit_device_range(Owner::kWorker, kEmaRanges.buffers,
                               engine_.model->buffers(), average_->buffers());
    visit_number(visitor, Owner::kWorker, "ema_updates", average_->updates());
    if (scheme_->is_pulling()) average_due_ = scheme_->steps_done();
  }
  visit_number(visitor, Owner::kWorker, "batches_seen", batches_seen_);
  // A row may end before the first step after a resume.
  visit_number(visitor, Owner::kWorker, "rate", rate_);
}

// Wall clocks are not part of the state. The virtual clock stands still during
// steps under MPI.
void WorkerStep::visit_clock(StateVisitor& visitor) {
  Time& virtual_s = is_virtual_ ? ended_at_ : virtual_before_mpi_s_;
  visit_number(visitor, Owner::kWorker, "virtual_s", virtual_s);
  if (!is_virtual_) ended_at_ = 0;
  LinkClocks links = endpoint_.link_clocks();
  visitor.visit(Owner::kWorker, "links/taken_until_s",
                std::span<double>(links.taken_until));
  auto num_later = std::ssize(links.taken_later);
  visit_number(visitor, Owner::kWorker, "links/num_taken_later", num_later);
  links.taken_later.resize(static_cast<size_t>(num_later));
  if (num_later > 0) visit_later(visitor, links.taken_later);
  endpoint_.set_link_clocks(links);
}

}  // namespace syncopate
