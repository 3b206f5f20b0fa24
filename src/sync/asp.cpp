#include "sync/asp.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/host_values.h"
#include "comm/tags.h"
#include "keys/key.h"
#include "ops/elementwise.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"
#include "tensor/visit_numbers.h"

namespace syncopate {
namespace {

// The virtual seconds in which all parameters are updated on servers. Where
// each worker's machine has one of them, the time that its own worker takes (0
// here) stands for this.
double server_update_s(const SchemeParts& parts, int num_shards) {
  const bool has_own_time =
      num_shards < parts.endpoint.size() || parts.endpoint.has_servers_apart();
  return parts.update_time != nullptr && has_own_time
             ? parts.update_time->seconds
             : 0;
}

}  // namespace

Asp::Asp(const SchemeParts& parts, int64_t bound)
    : SchemeBase(
          parts,
          std::make_unique<Tickets>(parts.endpoint, bound),
          {.parameters = Owner::kShared,
           .buffers = parts.sync.asp.batchnorm == ServerStatistics::kLocal
                          ? Owner::kWorker
                          : Owner::kShared}),
      exchange_(parts, bound),
      stale_(parts.endpoint.size()),
      server_update_s_(server_update_s(parts, exchange_.num_shards())),
      is_bounded_(bound >= 0),
      order_(parts, exchange_.num_shards(), bound) {
  if (rank() < exchange_.num_shards()) {
    const Slice slice = exchange_.slice(rank());
    const double share = static_cast<double>(slice.elems) /
                         static_cast<double>(replica().parameters.size());
    shard_ = std::make_unique<ParameterShard>(
        parts, slice, exchange_.statistics_slice(rank()), bound,
        server_update_s_ * share);
  }
  order_.attach(tickets(), shard_.get());
}

OnHost Asp::own_slice(std::span<float> range, const Slice& slice) {
  return {context().device(), context().stream(),
          range.subspan(slice.offset, slice.elems)};
}

void Asp::enter() {
  has_entered_ = true;
  order_.enter();
  Replica& mine = replica();
  const Slice slice = exchange_.slice(rank());
  if (shard_) {
    shard_->enter(own_slice(mine.parameters.write(), slice).values());
    const auto to = shard_->optimizer().state();
    const auto from = mine.optimizer->state();
    // State of a different optimizer does not apply: keep the initial state.
    if (to.size() == from.size()) {
      for (size_t i = 0; i < to.size(); ++i) {
        OnHost state = own_slice(from[i], slice);
        copy_values(to[i].data(), state.values().data(), std::ssize(to[i]));
      }
      shard_->optimizer().set_steps(mine.optimizer->steps());
    }
  }
  context().stream().synchronize();
  mine.optimizer.reset();
}

namespace {

// What each worker had taken when it last requested a step: it ends that step
// at its own clock, which may lie after those of others, and requests another
// then.
std::vector<int64_t> at_last_requests(std::vector<int64_t> steps) {
  for (int64_t& taken : steps) taken = std::max(int64_t{0}, taken - 1);
  return steps;
}

}  // namespace

// In virtual time each worker begins at its own clock: none proceeds before all
// services are ready for the first.
void Asp::begin(const Segment& given) {
  CHECK(!is_open_);
  const Segment segment = order_.until_recorded(given);
  is_open_ = true;
  has_left_ = false;
  const Time here = endpoint().now();
  endpoint().set_clock(segment.earliest);
  const std::vector<int64_t> steps = steps_of_workers();
  if (steps.empty())
    SchemeBase::begin(segment);
  else
    tickets().begin(segment, at_last_requests(steps));
  if (shard_)
    shard_->begin(
        endpoint(), segment,
        own_slice(replica().parameters.write(), exchange_.slice(rank()))
            .values(),
        own_slice(replica().buffers, exchange_.statistics_slice(rank()))
            .values(),
        steps, pulls_first({}));
  barrier(endpoint(), world_, tags::kCollective);
  endpoint().set_clock(here);
}

// By rank, for those who count them: with a bound, the shards, and rank 0 for
// its tickets. Empty for all others.
std::vector<int64_t> Asp::steps_of_workers() {
  std::vector<int64_t> steps;
  if (!is_bounded_) return steps;
  const int64_t mine = steps_done();
  for (int root = 0; root < std::max(1, exchange_.num_shards()); ++root) {
    const auto all = gather_bytes(
        endpoint(), world_, bytes_view(std::span<const int64_t>(&mine, 1)),
        root, tags::kCollective, Traffic::kControl);
    if (root != rank()) continue;
    steps.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i)
      std::memcpy(&steps[i], all[i].data(), sizeof steps[i]);
  }
  return steps;
}

// Requests another step before it waits for the pull. A later answer would
// queue behind the gradients that rank 0 pushes over the same connection.
StepPlan Asp::next(const StepRequest& mine) {
  tickets().ask(mine);
  pull(mine);
  await_pulled();
  const StepPlan plan = SchemeBase::next(mine);
  if (plan.stop && !has_left_) exchange_.tell_boundary();
  has_left_ = plan.stop;
  return plan;
}

// With asp.pull = before_step: whether the first step of a segment pulls. In
// virtual time the last pull of the segment before counts as this one, so that
// a boundary takes no time, but values from before a pause would be stale.
bool Asp::pulls_first(const StepRequest& mine) {
  return exchange_.has_requests() &&
         (has_entered_ || mine.has_paused || !endpoint().has_virtual_time());
}

void Asp::pull(const StepRequest& mine) {
  const bool has_pushed = exchange_.is_in_flight();
  if (exchange_.has_requests() && !has_left_ &&
      (has_pushed || pulls_first(mine)))
    exchange_.request_pull();
  if (!exchange_.is_in_flight()) return;
  times_.add(exchange_.finish());
  pulled_at_ = endpoint().now();
  if (has_pushed) stale_.note(exchange_.staleness());
}

// Waits without reporting again what finish() has reported.
void Asp::await_pulled() {
  if (endpoint().now() < pulled_at_)
    endpoint().advance(pulled_at_ - endpoint().now());
}

// Clipping needs the norm of the whole gradient.
void Asp::gradient_ready(const Bucket& bucket, const StepPlan& plan) {
  if (parts_.optimizer.clip_norm == 0) exchange_.push_from(bucket.offset, plan);
}

// Pushes what gradient_ready() has not.
void Asp::update(const StepPlan& plan) {
  if (const float* factor = clip(1))
    scale_by(context(), replica().gradients, factor);
  if (server_update_s_ > 0) parts_.update_time->is_spent = true;
  exchange_.push_from(0, plan);
  ++num_pushes_;
}

void Asp::quiesce() {
  if (!is_open_) return;
  CHECK(has_left_ && !exchange_.is_in_flight());
  SchemeBase::quiesce();
  if (shard_) shard_->end(endpoint());
  is_open_ = has_entered_ = false;
  check_counters();
  is_gathered_ = false;
}

void Asp::gather() {
  if (!std::exchange(is_gathered_, true))
    exchange_.gather_replica(shard_.get(), Traffic::kControl);
}

// Checks that every shard has applied every push exactly once.
void Asp::check_counters() {
  double sums[] = {static_cast<double>(num_pushes_),
                   static_cast<double>(steps_done())};
  agree(endpoint(), world_, sums, Combine::kCount, tags::kControl);
  CHECK_MSG(sums[0] == sums[1], "{} pushes of {} steps", sums[0], sums[1]);
  const auto pushes = static_cast<int64_t>(sums[0]);
  if (shard_)
    CHECK_MSG(shard_->num_updates() == pushes, "{} updates of {} pushes",
              shard_->num_updates(), pushes);
  order_.note_boundary(pushes);
}

// Also at a boundary, where the model has been gathered, so that a change takes
// as long as anywhere else.
void Asp::leave(double rate) {
  const bool is_gathered = std::exchange(is_gathered_, true);
  exchange_.gather_replica(is_gathered ? nullptr : shard_.get(),
                           Traffic::kPayload);
  SchemeBase::leave(rate);
  await_pulled();
  Replica& mine = replica();
  mine.optimizer =
      make_optimizer(context(), parts_.optimizer, parts_.model.parameters(), 0,
                     mine.parameters.size());
  const auto whole = mine.optimizer->state();
  for (size_t i = 0; i < whole.size(); ++i) {
    OnHost state(context().device(), context().stream(), whole[i]);
    exchange_.gather(
        state.values(),
        shard_ ? shard_->optimizer().state()[i] : std::span<float>(),
        Traffic::kPayload);
    state.put_back();
  }
  // All shards have seen every push; not all workers have a shard.
  double steps =
      shard_ ? static_cast<double>(shard_->optimizer().steps()) : 0.0;
  agree(endpoint(), world_, std::span(&steps, 1), Combine::kMax,
        tags::kControl);
  mine.optimizer->set_steps(static_cast<int64_t>(steps));
}

void Asp::visit_state(StateVisitor& visitor) {
  replica().optimizer.reset();  // a replica that was just created has one
  SchemeBase::visit_state(visitor);
  visit_number(visitor, Owner::kWorker, "pushes", num_pushes_);
  // Past times are meaningless to the clock of another process or world.
  if (pulled_at_ <= endpoint().now()) pulled_at_ = 0;
  visit_number(visitor, Owner::kWorker, "pulled_at", pulled_at_);
  stale_.visit_state(visitor);
  if (shard_) shard_->visit_state(visitor);
  order_.visit_state(visitor);
}

Keys asp_keys() {
  return within(
      &SyncOptions::asp,
      {
          {.name = "asp.servers",
           .place = &AspOptions::servers,
           .doc = "Number of shards of the parameter server, on the first "
                  "workers; auto: one per worker. Workers push to each shard "
                  "during the backward pass, as soon as its gradient is "
                  "final.",
           .low = 1,
           .high = 65536,
           .zero_word = "auto"},
          {.name = "asp.compensation",
           .place = &AspOptions::compensation,
           .doc = "Delay compensation (DC-ASGD) relative to the parameters "
                  "that the worker pulled, or to those before the last "
                  "update."},
          {.name = "asp.lambda",
           .place = &AspOptions::lambda,
           .doc = "Factor of the compensation.",
           .low = 0,
           .used_when = {{"asp.compensation", {"per_worker", "per_key"}}}},
          {.name = "asp.pull",
           .place = &AspOptions::pull,
           .doc = "When a worker receives the parameters: each slice as soon "
                  "as it has been pushed, or all of them when a step begins. "
                  "The latter takes longer, but the gradients are less stale "
                  "(as with TensorFlow's parameter servers)."},
          {.name = "asp.batchnorm",
           .place = &AspOptions::batchnorm,
           .doc = "Running statistics of BatchNorm. local: each worker's own; "
                  "shared: variables of the server, to which each worker adds "
                  "the changes that its batch made to the values it had pulled "
                  "(as Tensor2Tensor does in Sync-Switch; with 16 or more "
                  "workers, variances become negative); averaged: "
                  "variables of the server, which averages the batch's "
                  "statistics into them (as TensorFlow does by itself).",
           .used_when = {{"model.family", {}, "batchnorm"}}},
          {.name = "asp.record",
           .place = &AspOptions::record,
           .doc = "Whether the order of arrivals is written to order.h5 in "
                  "the run's folder."},
          {.name = "asp.replay",
           .place = &AspOptions::replay,
           .doc = "An order.h5 whose order of arrivals is replayed; none: the "
                  "actual order of arrival. A request to stop or save takes "
                  "effect at the next recorded evaluation or checkpoint.",
           .zero_word = "none"},
      });
}

// Pushes to other workers' shards, and answers from the local one: in total the
// whole model except the 1/N that stays local, whichever workers have the
// shards. Nothing stays local if these have machines of their own. With
// asp.pull = before_step a run has one pull more.
std::optional<double> asp_bytes(const TrafficPlan& plan) {
  double model = static_cast<double>(plan.D) * plan.value_bytes();
  if (plan.request.sync.asp.batchnorm != ServerStatistics::kLocal)
    model += static_cast<double>(plan.buffers) * sizeof(float);
  if (plan.request.has_servers_apart) return 2.0 * model;
  return 2.0 * model * (plan.N - 1) / plan.N;
}

SchemeInfo asp_scheme() {
  return {.keyword = "asp",
          .description =
              "asynchronous: every worker pushes to and pulls from "
              "a sharded parameter server at its own speed",
          .make = &make<Asp>,
          .check =
              [](const SchemeRequest& request) {
                check_server(request, Tickets::kNoBound);
              },
          .keys = &asp_keys,
          .planned_bytes = &asp_bytes,
          .uses_wire = true,
          .keeps_replicas_equal = true,
          .is_free_running = true,
          .sends_to_all = true,
          .has_servers = true};
}

}  // namespace syncopate
