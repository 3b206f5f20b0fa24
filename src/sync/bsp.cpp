#include "sync/bsp.h"

#include <algorithm>

#include "comm/tags.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "sync/bucket.h"

namespace syncopate {

Bsp::Bsp(const SchemeParts& parts)
    : parts_(parts),
      world_(parts.endpoint.world_group()),
      algorithm_(parts.sync.collective == "native"
                     ? CollectiveAlgorithm::kNative
                     : CollectiveAlgorithm::kRing),
      wire_(parts.sync.wire == "bf16" ? Wire::kBf16 : Wire::kF32),
      averages_batchnorm_(parts.sync.batchnorm == "averaged"),
      task_times_(kMaxBuckets + 1) {}

int64_t Bsp::worker_steps_done() const {
  return step_ * world_.size();
}

Plan Bsp::next() {
  const int64_t worker_steps = worker_steps_done();
  return {.stop = worker_steps >= parts_.stop_at_worker_steps,
          .step = step_,
          .worker_steps = worker_steps,
          .rate = parts_.schedule.rate(static_cast<double>(step_))};
}

void Bsp::start_all_reduce(std::string name,
                           std::span<float> values,
                           Wire wire,
                           Tag tag) {
  const size_t index = in_flight_.size();
  in_flight_.push_back(parts_.endpoint.start(
      std::move(name), [this, values, wire, tag, index](Endpoint& endpoint) {
        task_times_[index].first = endpoint.now();
        all_reduce_sum(endpoint, world_, values, algorithm_, wire, tag,
                       Traffic::kPayload);
        task_times_[index].second = endpoint.now();
      }));
}

void Bsp::gradient_ready(const Bucket& bucket) {
  if (world_.size() == 1) return;
  start_all_reduce(
      "bucket",
      std::span(parts_.replica.gradients).subspan(bucket.offset, bucket.elems),
      wire_, tags::kBucket + bucket.index);
  // Forward has updated the statistics: they can travel with the gradients, in
  // full, since a step changes them by less than bf16 resolves.
  if (bucket.is_last && averages_batchnorm_ && !parts_.replica.buffers.empty())
    start_all_reduce("batchnorm", parts_.replica.buffers, Wire::kF32,
                     tags::kBucket - 1);
  if (bucket.is_last) start_arrival();
}

// Tells the time spent waiting for others from the time that messages take: a
// barrier beside the buckets ends once the last worker has its gradients.
void Bsp::start_arrival() {
  arrival_ = parts_.endpoint.start("arrival", [this](Endpoint& endpoint) {
    barrier(endpoint, world_, tags::kArrival);
    all_arrived_at_ = endpoint.now();
  });
}

// How long communication was under way before `until`: tasks run at the same
// time, so it is the union of theirs.
double Bsp::busy_before(Time until) {
  const auto end = task_times_.begin() + std::ssize(in_flight_);
  std::sort(task_times_.begin(), end);
  double busy = 0;
  Time covered = 0;
  for (auto task = task_times_.begin(); task != end; ++task) {
    const Time from = std::max(task->first, covered);
    const Time to = std::min(task->second, until);
    if (to <= from) continue;
    busy += to - from;
    covered = to;
  }
  return busy;
}

void Bsp::update(const Plan& plan) {
  const Time begin = parts_.endpoint.now();
  for (const Task& task : in_flight_) parts_.endpoint.join(task);
  const double exposed = parts_.endpoint.now() - begin;
  if (arrival_) {
    parts_.endpoint.join(arrival_);
    times_.wait_s += std::clamp(all_arrived_at_ - begin, 0.0, exposed);
    arrival_ = nullptr;
  }
  times_.exposed_s += exposed;
  times_.overlapped_s += busy_before(begin);
  in_flight_.clear();

  Replica& replica = parts_.replica;
  const double mean = 1.0 / world_.size();
  const double limit = parts_.optimizer.clip_norm;
  double factor = 1;
  if (limit > 0)
    factor = clip_factor(
        sum_of_squares(parts_.context, replica.gradients) * mean * mean, limit);
  replica.optimizer->apply(parts_.context, 0, replica.parameters,
                           replica.gradients,
                           {.rate = plan.rate,
                            .momentum = parts_.optimizer.momentum,
                            .grad_scale = mean * factor});
  if (averages_batchnorm_ && world_.size() > 1)
    scale(parts_.context, replica.buffers, static_cast<float>(mean));
}

void Bsp::end_step(const Plan&) {
  ++step_;
}

void Bsp::quiesce() {
  CHECK(in_flight_.empty());
}

void Bsp::evaluation_model(EvalModel which,
                           std::span<float> parameters,
                           std::span<float> buffers) {
  const Replica& replica = parts_.replica;
  std::ranges::copy(replica.parameters, parameters.begin());
  std::ranges::copy(replica.buffers, buffers.begin());
  if (which == EvalModel::kEach || world_.size() == 1 || buffers.empty())
    return;
  // Parameters are equal everywhere; statistics may not be.
  if (which == EvalModel::kRank0) {
    broadcast(parts_.endpoint, world_, bytes_span(buffers), 0,
              tags::kEvaluation, Traffic::kEvaluation);
    return;
  }
  all_reduce_sum(parts_.endpoint, world_, buffers, CollectiveAlgorithm::kRing,
                 Wire::kF32, tags::kEvaluation, Traffic::kEvaluation);
  scale(parts_.context, buffers, 1.0f / static_cast<float>(world_.size()));
}

void Bsp::visit_state(StateVisitor& visitor) {
  Replica& replica = parts_.replica;
  visitor.visit(Owner::kShared, "step", std::span(&step_, 1));
  visitor.visit_range(Owner::kShared, "parameters", parts_.model.parameters(),
                      replica.parameters);
  visitor.visit_range(averages_batchnorm_ ? Owner::kShared : Owner::kWorker,
                      "buffers", parts_.model.buffers(), replica.buffers);
  replica.optimizer->visit_state(visitor, Owner::kShared);
}

SyncTimes Bsp::take_times() {
  return std::exchange(times_, SyncTimes{});
}

std::unique_ptr<Scheme> make_bsp(const SchemeParts& parts) {
  return std::make_unique<Bsp>(parts);
}

}  // namespace syncopate
