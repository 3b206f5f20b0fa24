#include "sync/local_sgd.h"

#include "comm/tags.h"
#include "keys/key.h"
#include "ops/combine.h"
#include "ops/elementwise.h"
#include "sync/planned_bytes.h"

namespace syncopate {

LocalSgd::LocalSgd(const SchemeParts& parts)
    : SchemeBase(parts,
                 lockstep(parts, parts.sync.local_sgd.steps),
                 {.parameters = Owner::kWorker,
                  .buffers = Owner::kWorker,
                  .optimizer = Owner::kWorker}),
      options_(parts.sync.local_sgd),
      averages_batchnorm_(options_.batchnorm == Statistics::kAveraged &&
                          !parts.replica.buffers.empty()),
      has_outer_(options_.outer == OuterStep::kMomentum) {
  if (!has_outer_) return;
  const int64_t elems = parts.replica.parameters.size();
  start_ = {context().device(), context().stream(), elems};
  velocity_ = {context().device(), context().stream(), elems};
}

StepPlan LocalSgd::next(const Word& mine) {
  const StepPlan plan = SchemeBase::next(mine);
  is_together_ = !plan.stop && static_cast<double>(plan.worker_steps / size()) <
                                   options_.start.steps(parts_.steps_per_epoch);
  return plan;
}

void LocalSgd::gradient_ready(const Bucket& bucket) {
  if (!is_together_ || size() == 1) return;
  // The mean is by samples, but the gradient is the mean of the local batch.
  const DeviceVector<float>& gradients = replica().gradients;
  if (parts_.batch_weight != 1)
    scale(context(), gradients.span().subspan(bucket.offset, bucket.elems),
          static_cast<float>(parts_.batch_weight));
  reducer_->start("bucket", gradients, bucket.offset, bucket.elems, wire_,
                  tags::kBucket + bucket.index);
  if (!bucket.is_last) return;
  if (averages_batchnorm_)
    reducer_->start("batchnorm", replica().buffers, 0, replica().buffers.size(),
                    Wire::kF32, tags::kBucket - 1);
  reducer_->close();
}

void LocalSgd::update(const StepPlan& plan) {
  if (is_together_) return update_together(plan);
  const Replica& mine = replica();
  if (has_outer_ && steps_in_round_ == 0)
    combine(context(), start_, {{1, mine.parameters}});
  step_locally(plan);
  ++steps_in_round_;
}

void LocalSgd::update_together(const StepPlan& plan) {
  if (size() > 1) times_.add(reducer_->finish());
  const double mean = 1.0 / size();
  replica().optimizer->apply(context(), 0, replica().parameters,
                             replica().gradients,
                             {.rate = plan.rate,
                              .momentum = plan.momentum,
                              .grad_scale = mean,
                              .clip_factor = clip(mean)});
  if (averages_batchnorm_ && size() > 1)
    scale(context(), replica().buffers, static_cast<float>(mean));
}

void LocalSgd::end_step(const StepPlan&) {
  if (steps_in_round_ < options_.steps) return;
  steps_in_round_ = 0;
  if (averages_batchnorm_)
    average(world_, {{replica().parameters}, {replica().buffers}});
  else
    average(world_, {{replica().parameters}});
  if (has_outer_) outer_step();
}

void LocalSgd::outer_step() {
  const DeviceVector<float>& x = replica().parameters;
  const DeviceVector<float>& d = replica().gradients;  // no longer needed
  const auto eta = static_cast<float>(options_.outer_lr);
  const auto mu = static_cast<float>(options_.outer_momentum);
  combine(context(), d, {{1, start_}, {-1, x}});
  combine(context(), velocity_, {{mu, velocity_}, {1, d}});
  if (options_.outer_nesterov)
    combine(context(), x, {{1, start_}, {-eta, d}, {-eta * mu, velocity_}});
  else
    combine(context(), x, {{1, start_}, {-eta, velocity_}});
}

void LocalSgd::quiesce() {
  SchemeBase::quiesce();
  times_.add(reducer_->quiesce());
}

void LocalSgd::visit_state(StateVisitor& visitor) {
  SchemeBase::visit_state(visitor);
  visitor.visit(Owner::kShared, "steps_in_round",
                std::span(&steps_in_round_, 1));
  if (!has_outer_) return;
  const ParameterTable& table = parts_.model.parameters();
  visitor.visit_device_range(Owner::kShared, "round_start", table, start_);
  visitor.visit_device_range(Owner::kShared, "outer_velocity", table,
                             velocity_);
}

std::unique_ptr<Scheme> make_local_sgd(const SchemeParts& parts) {
  return std::make_unique<LocalSgd>(parts);
}

std::string local_sgd_obstacle(const SchemeRequest& request) {
  if (request.sync.local_sgd.steps < 1)
    return "local_sgd.steps: no local steps, expected 1 or more";
  // Averaging a few steps changes parameters by less than bf16 resolves.
  if (request.sync.wire != Wire::kF32)
    return "sync.wire: bf16 would round parameters away, expected fp32 with "
           "local_sgd";
  return "";
}

Keys local_sgd_keys() {
  const std::vector<UsedWhen> with_momentum = {
      {"local_sgd.outer", {"momentum"}}};
  return within(
      &SyncOptions::local_sgd,
      {
          {.name = "local_sgd.steps",
           .place = &LocalSgdOptions::steps,
           .doc = "Local steps between two averages.",
           .low = 1},
          {.name = "local_sgd.outer",
           .place = &LocalSgdOptions::outer,
           .doc = "What is done with the workers' models: their average, or a "
                  "step of an outer optimizer along it."},
          {.name = "local_sgd.outer_lr",
           .place = &LocalSgdOptions::outer_lr,
           .doc = "Rate of the outer step.",
           .low = 0,
           .is_low_open = true,
           .used_when = with_momentum},
          {.name = "local_sgd.outer_momentum",
           .place = &LocalSgdOptions::outer_momentum,
           .doc = "Momentum of the outer step.",
           .low = 0,
           .high = 1,
           .is_high_open = true,
           .used_when = with_momentum},
          {.name = "local_sgd.outer_nesterov",
           .place = &LocalSgdOptions::outer_nesterov,
           .doc = "Nesterov's form of the outer momentum.",
           .used_when = with_momentum},
          {.name = "local_sgd.start",
           .place = &LocalSgdOptions::start,
           .doc = "Before this, gradients are averaged every step (post-local "
                  "SGD).",
           .low = 0},
          {.name = "local_sgd.batchnorm",
           .place = &LocalSgdOptions::batchnorm,
           .doc =
               "Running statistics of BatchNorm: averaged with the parameters, "
               "or each worker's own.",
           .used_when = {{"model.family", {}, "batchnorm"}}},
      });
}

std::optional<double> local_sgd_bytes(const TrafficPlan& plan) {
  const LocalSgdOptions& options = plan.request.sync.local_sgd;
  if (options.start.value > 0) return std::nullopt;
  return plan.all_reduce(plan.N, plan.with_buffers(options.batchnorm),
                         Wire::kF32) /
         static_cast<double>(options.steps);
}

}  // namespace syncopate
