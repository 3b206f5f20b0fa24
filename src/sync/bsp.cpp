#include "sync/bsp.h"

#include <algorithm>

#include "comm/tags.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace syncopate {

Bsp::Bsp(const SchemeParts& parts)
    : parts_(parts),
      world_(parts.endpoint.world_group()),
      wire_(parts.sync.wire == "bf16" ? Wire::kBf16 : Wire::kF32),
      averages_batchnorm_(parts.sync.batchnorm == "averaged"),
      reducer_(make_reducer(parts)),
      clip_factor_(parts.context.device(), parts.context.stream(), 1) {}

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

void Bsp::gradient_ready(const Bucket& bucket) {
  if (world_.size() == 1) return;
  reducer_->start("bucket", parts_.replica.gradients, bucket.offset,
                  bucket.elems, wire_, tags::kBucket + bucket.index);
  if (!bucket.is_last) return;
  // Forward has updated the statistics: they can travel with the gradients, in
  // full, since a step changes them by less than bf16 resolves.
  const DeviceVector<float>& buffers = parts_.replica.buffers;
  if (averages_batchnorm_ && !buffers.empty())
    reducer_->start("batchnorm", buffers, 0, buffers.size(), Wire::kF32,
                    tags::kBucket - 1);
  reducer_->close();
}

void Bsp::add(const SyncTimes& times) {
  times_.exposed_s += times.exposed_s;
  times_.overlapped_s += times.overlapped_s;
  times_.wait_s += times.wait_s;
  times_.device_s += times.device_s;
}

void Bsp::update(const Plan& plan) {
  if (world_.size() > 1) add(reducer_->finish());
  Replica& replica = parts_.replica;
  const double mean = 1.0 / world_.size();
  const double limit = parts_.optimizer.clip_norm;
  if (limit > 0)
    clip_factor(parts_.context, clip_factor_.data(), replica.gradients, mean,
                limit);
  replica.optimizer->apply(
      parts_.context, 0, replica.parameters, replica.gradients,
      {.rate = plan.rate,
       .momentum = parts_.optimizer.momentum,
       .grad_scale = mean,
       .clip_factor = limit > 0 ? clip_factor_.data() : nullptr});
  if (averages_batchnorm_ && world_.size() > 1)
    scale(parts_.context, replica.buffers, static_cast<float>(mean));
}

void Bsp::end_step(const Plan&) {
  ++step_;
}

void Bsp::quiesce() {
  add(reducer_->quiesce());
}

void Bsp::evaluation_model(EvalModel which,
                           std::span<float> parameters,
                           std::span<float> buffers) {
  const Replica& replica = parts_.replica;
  Device& device = parts_.context.device();
  Stream& stream = parts_.context.stream();
  device.copy(parameters.data(), replica.parameters.data(),
              static_cast<int64_t>(parameters.size_bytes()), stream);
  device.copy(buffers.data(), replica.buffers.data(),
              static_cast<int64_t>(buffers.size_bytes()), stream);
  if (which == EvalModel::kEach || world_.size() == 1 || buffers.empty())
    return;
  // Parameters are equal everywhere; statistics may not be.
  OnHost host(device, stream, buffers);
  if (which == EvalModel::kRank0)
    broadcast(parts_.endpoint, world_, bytes_span(host.values()), 0,
              tags::kEvaluation, Traffic::kEvaluation);
  else
    all_reduce_sum(parts_.endpoint, world_, host.values(),
                   CollectiveAlgorithm::kRing, Wire::kF32, tags::kEvaluation,
                   Traffic::kEvaluation);
  host.put_back();
  if (which == EvalModel::kAverage)
    scale(parts_.context, buffers, 1.0f / static_cast<float>(world_.size()));
}

void Bsp::visit_state(StateVisitor& visitor) {
  Replica& replica = parts_.replica;
  visitor.visit(Owner::kShared, "step", std::span(&step_, 1));
  visitor.visit_device_range(Owner::kShared, "parameters",
                             parts_.model.parameters(), replica.parameters);
  visitor.visit_device_range(
      averages_batchnorm_ ? Owner::kShared : Owner::kWorker, "buffers",
      parts_.model.buffers(), replica.buffers);
  replica.optimizer->visit_state(visitor, Owner::kShared);
}

SyncTimes Bsp::take_times() {
  return std::exchange(times_, SyncTimes{});
}

std::unique_ptr<Scheme> make_bsp(const SchemeParts& parts) {
  return std::make_unique<Bsp>(parts);
}

}  // namespace syncopate
