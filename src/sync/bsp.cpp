#include "sync/bsp.h"

#include "keys/key.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"

namespace syncopate {

Bsp::Bsp(const SchemeParts& parts, Group group)
    : SchemeBase(parts,
                 std::make_unique<Lockstep>(parts.endpoint,
                                            parts.endpoint.world_group(),
                                            1,
                                            group.size()),
                 {.parameters = Owner::kShared,
                  .buffers = owner_of(parts.sync.bsp.batchnorm),
                  .optimizer = Owner::kShared}),
      group_(std::move(group)),
      clips_locally_(parts.sync.bsp.clip == ClipPlace::kLocal &&
                     parts.optimizer.clip_norm > 0) {
  reducer_->over(group_);
}

void Bsp::start(const Bucket& bucket) {
  if (group_.size() > 1)
    start_sum(bucket, parts_.sync.tables == TableTraffic::kRows,
              averaged_buffers(parts_.sync.bsp.batchnorm));
}

void Bsp::gradient_ready(const Bucket& bucket, const StepPlan&) {
  if (!clips_locally_) return start(bucket);
  held_back_.push_back(bucket);
  if (!bucket.is_last) return;
  scale_by(context(), replica().gradients, clip(1 / parts_.batch_weight()));
  for (const Bucket& held : held_back_) start(held);
  held_back_.clear();
}

void Bsp::update(const StepPlan& plan) {
  if (group_.size() > 1)
    finish_sums(group_, averaged_buffers(parts_.sync.bsp.batchnorm));
  const double mean = 1.0 / group_.size();
  step_locally(clips_locally_ ? ApplyParams{.rate = plan.rate,
                                            .momentum = plan.momentum,
                                            .grad_scale = mean}
                              : params_of(plan, mean));
}

namespace {

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
           .doc = "What optimizer.clip_norm bounds: the mean gradient, or "
                  "each worker's gradient before the reduction.",
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

}  // namespace

SchemeInfo bsp_scheme() {
  return {.keyword = "bsp",
          .description =
              "bulk-synchronous: gradients averaged over all workers "
              "every step",
          .make = &make<Bsp>,
          .keys = &bsp_keys,
          .planned_bytes = &bsp_bytes,
          .uses_wire = true,
          .reduces_ranges = true,
          .sends_rows = true,
          .uses_collectives = true,
          .keeps_replicas_equal = true,
          .averages_gradients = true};
}

}  // namespace syncopate
