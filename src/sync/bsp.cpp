#include "sync/bsp.h"

#include "comm/tags.h"
#include "keys/key.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "sync/planned_bytes.h"

namespace syncopate {

Bsp::Bsp(const SchemeParts& parts, Group group)
    : SchemeBase(parts,
                 std::make_unique<Lockstep>(parts.endpoint,
                                            parts.endpoint.world_group(),
                                            1,
                                            group.size()),
                 {.parameters = Owner::kShared,
                  .buffers = parts.sync.bsp.batchnorm == Statistics::kAveraged
                                 ? Owner::kShared
                                 : Owner::kWorker,
                  .optimizer = Owner::kShared}),
      group_(std::move(group)),
      averages_batchnorm_(parts.sync.bsp.batchnorm == Statistics::kAveraged),
      clips_locally_(parts.sync.bsp.clip == ClipPlace::kLocal &&
                     parts.optimizer.clip_norm > 0),
      exchanges_rows_(parts.sync.tables == TableTraffic::kRows) {
  reducer_->over(group_);
}

void Bsp::start(const Bucket& bucket) {
  const auto start = bucket.is_table && exchanges_rows_ ? &Reducer::start_rows
                                                        : &Reducer::start;
  ((*reducer_).*start)("bucket", replica().gradients, bucket.offset,
                       bucket.elems, wire_, tags::kBucket + bucket.index);
}

void Bsp::gradient_ready(const Bucket& bucket) {
  if (clips_locally_) {
    held_back_.push_back(bucket);
    if (!bucket.is_last) return;
    scale_by(context(), replica().gradients, clip(1));
    if (group_.size() > 1)
      for (const Bucket& held : held_back_) start(held);
    held_back_.clear();
  }
  if (group_.size() == 1) return;
  if (!clips_locally_) start(bucket);
  if (!bucket.is_last) return;
  // Forward has updated the statistics, so they can be sent with the gradients;
  // in fp32, since a step changes them by less than bf16 resolves.
  const DeviceVector<float>& buffers = replica().buffers;
  if (averages_batchnorm_ && !buffers.empty())
    reducer_->start("batchnorm", buffers, 0, buffers.size(), Wire::kF32,
                    tags::kBucket - 1);
  reducer_->close();
}

void Bsp::update(const StepPlan& plan) {
  if (group_.size() > 1) times_.add(reducer_->finish());
  const double mean = 1.0 / group_.size();
  replica().optimizer->apply(
      context(), 0, replica().parameters, replica().gradients,
      {.rate = plan.rate,
       .momentum = plan.momentum,
       .grad_scale = mean,
       .clip_factor = clips_locally_ ? nullptr : clip(mean)});
  if (averages_batchnorm_ && group_.size() > 1)
    scale(context(), replica().buffers, static_cast<float>(mean));
}

std::span<const double> Bsp::step_seconds() const {
  return dynamic_cast<const Lockstep&>(*pace_).step_seconds();
}

void Bsp::quiesce() {
  SchemeBase::quiesce();
  times_.add(reducer_->quiesce());
}

std::unique_ptr<Scheme> make_bsp(const SchemeParts& parts) {
  return std::make_unique<Bsp>(parts, parts.endpoint.world_group());
}

Keys bsp_keys() {
  return within(
      &SyncOptions::bsp,
      {
          {.name = "bsp.batchnorm",
           .place = &BspOptions::batchnorm,
           .doc = "Running statistics of BatchNorm: each worker's own, or "
                  "averaged.",
           .choices = {"local", "averaged"},
           .used_when = {{"model.family", {}, "batchnorm"}}},
          {.name = "bsp.clip",
           .place = &BspOptions::clip,
           .doc = "What optimizer.clip_norm bounds: the mean gradient, or each "
                  "worker's before the reduction.",
           .used_when = {{"optimizer.clip_norm", {}}}},
      });
}

// With rows, the traffic depends on which rows the batches touch.
std::optional<double> bsp_bytes(const TrafficPlan& plan) {
  if (plan.request.sync.tables == TableTraffic::kRows && plan.has_tables())
    return std::nullopt;
  return plan.all_reduce(plan.N, plan.D, plan.wire) +
         (plan.request.sync.bsp.batchnorm == Statistics::kAveraged
              ? plan.all_reduce(plan.N, plan.buffers, Wire::kF32)
              : 0);
}

}  // namespace syncopate
