#include "sync/scheme_base.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/tags.h"
#include "comm/trace.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "sync/bucket.h"
#include "sync/over_workers.h"

namespace syncopate {

SyncTimes blocked_since(Time entered,
                        Time has_own_at,
                        Context& context,
                        const Endpoint& endpoint,
                        const char* what) {
  const Time now = endpoint.now();
  Time begin = entered;
  if (context.device().kind() == DeviceKind::kCuda)
    begin = std::clamp(has_own_at, entered, now);
  if (WorkerTrace* trace = endpoint.trace()) trace->wait(what, begin, now);
  return {.exposed_s = now - begin, .device_s = begin - entered};
}

SyncTimes waited_since(Time entered,
                       const Endpoint& endpoint,
                       const char* what) {
  const Time now = endpoint.now();
  if (WorkerTrace* trace = endpoint.trace()) trace->wait(what, entered, now);
  return {.exposed_s = now - entered, .wait_s = now - entered};
}

void refuse_bf16(const SchemeRequest& request,
                 const char* scheme,
                 const char* why) {
  if (request.sync.wire != Wire::kF32)
    fail(ExitCode::kBadInput, "sync.wire: bf16 {}, expected fp32 with {}", why,
         scheme);
}

void weigh_by_samples(const SchemeParts& parts, const Bucket& bucket) {
  if (parts.batch_weight() == 1) return;
  scale(parts.context,
        parts.replica.gradients.span().subspan(bucket.offset, bucket.elems),
        static_cast<float>(parts.batch_weight()));
}

std::unique_ptr<Pace> lockstep(const SchemeParts& parts, int64_t period) {
  return std::make_unique<Lockstep>(parts.endpoint,
                                    parts.endpoint.world_group(), period, 0,
                                    period > 1 ? parts.shared_stop : nullptr);
}

std::unique_ptr<Pace> lockstep_in_rounds(const SchemeParts& parts,
                                         int64_t steps_of_round) {
  constexpr int64_t kLongestPeriod = 32;
  return lockstep(parts, parts.endpoint.has_virtual_time()
                             ? steps_of_round
                             : std::min(steps_of_round, kLongestPeriod));
}

SchemeBase::SchemeBase(const SchemeParts& parts,
                       std::unique_ptr<Pace> pace,
                       const ReplicaOwners& owners)
    : parts_(parts),
      world_(parts.endpoint.world_group()),
      wire_(parts.sync.wire),
      pace_(std::move(pace)),
      reducer_(make_reducer(parts)),
      owners_(owners),
      clip_factor_(make_range(1)) {}

StepPlan SchemeBase::next(const StepRequest& mine) {
  const Time begin = parts_.endpoint.now();
  const Turn turn = pace_->next(mine);
  if (turn.stop) return {.stop = true};  // a boundary sets clocks back
  times_.add(waited_since(begin, parts_.endpoint, "turn"));
  return {.stop = false,
          .step = turn.step,
          .worker_steps = turn.worker_steps,
          .rate = parts_.schedule.rate(static_cast<double>(turn.worker_steps) /
                                       size()),
          .momentum = parts_.optimizer.momentum};
}

const float* SchemeBase::clip(double scale) {
  const double limit = parts_.optimizer.clip_norm;
  if (limit <= 0) return nullptr;
  clip_factor(context(), clip_factor_.data(), replica().gradients, scale, limit,
              replica().gradients.touched());
  return clip_factor_.data();
}

ApplyParams SchemeBase::params_of(const StepPlan& plan, double grad_scale) {
  return {.rate = plan.rate,
          .momentum = plan.momentum,
          .grad_scale = grad_scale,
          .clip_factor = clip(grad_scale)};
}

ApplyParams SchemeBase::own_params_of(const StepPlan& plan) {
  return {.rate = plan.rate,
          .momentum = plan.momentum,
          .clip_factor = clip(1 / parts_.batch_weight())};
}

void SchemeBase::step_locally(ApplyParams params) {
  const ParameterValues::Update update = replica().parameters.update();
  params.copies = update.copies;
  params.touched = replica().gradients.touched();
  replica().optimizer->apply(context(), 0, update.values, replica().gradients,
                             params);
}

std::span<float> SchemeBase::direction(const ApplyParams& params) {
  const std::span<float> d = replica().gradients;
  replica().optimizer->direction(context(), 0, d, replica().parameters, d,
                                 params);
  return d;
}

std::span<float> SchemeBase::averaged_buffers(Statistics batchnorm) {
  if (batchnorm == Statistics::kAveraged) return replica().buffers;
  return {};
}

void SchemeBase::start_sum(const Bucket& bucket,
                           bool as_rows,
                           std::span<float> buffers) {
  GradientValues& gradients = replica().gradients;
  const bool as_tables = bucket.is_table && as_rows;
  // Their exchange may allocate, which nothing may while a step is recorded:
  // tables come last.
  CHECK(!as_tables || bucket.is_last ||
        context().device().kind() != DeviceKind::kCuda);
  const std::span<float> values =
      as_tables ? gradients.marked()
                : gradients.span_for(bucket.offset, bucket.elems);
  // Only the stretch, so that the host needs no room for tables.
  reducer_->start(
      {.name = "bucket",
       .range = values.subspan(bucket.stretch_offset, bucket.stretch_elems),
       .offset = bucket.offset - bucket.stretch_offset,
       .elems = bucket.elems,
       .wire = wire_,
       .tag = tags::kBucket + bucket.index,
       .is_tables = as_tables,
       .touched = as_tables ? gradients.touched() : TouchedBlocks()});
  if (!bucket.is_last) return;
  // Forward has updated the statistics, so they can be sent with the gradients;
  // in fp32, since a step changes them by less than bf16 resolves.
  if (!buffers.empty())
    reducer_->start({.name = "batchnorm",
                     .range = buffers,
                     .elems = std::ssize(buffers),
                     .tag = tags::kBatchNorm});
  reducer_->close();
}

void SchemeBase::finish_sums(const Group& group, std::span<float> buffers) {
  times_.add(reducer_->finish());
  if (!buffers.empty()) divide(context(), buffers, group.size());
}

// In pieces, so that device copies overlap with messages.
void SchemeBase::average(const Group& group,
                         std::initializer_list<Averaged> ranges) {
  if (group.size() == 1) return;
  reducer_->over(group);
  int64_t total = 0;
  for (const auto& [range, wire] : ranges) total += std::ssize(range);
  const int64_t piece =
      std::max(bucket_elems(parts_.sync, total, parts_.collectives),
               total / (kMaxBuckets / 2) + 1);
  Tag tag = tags::kBucket;
  for (const auto& [range, wire] : ranges)
    for (int64_t begin = 0; begin < std::ssize(range); begin += piece)
      reducer_->start({.name = "average",
                       .range = range,
                       .offset = begin,
                       .elems = std::min(piece, std::ssize(range) - begin),
                       .wire = wire,
                       .tag = tag++});
  reducer_->close();
  times_.add(reducer_->finish());
  for (const auto& [range, wire] : ranges)
    if (!range.empty()) divide(context(), range, group.size());
}

void SchemeBase::quiesce() {
  pace_->quiesce();
  times_.add(reducer_->quiesce());
}

void SchemeBase::leave(double rate) {
  Replica& mine = replica();
  if (!unsent_.empty()) {
    average(world_, {{unsent_}});
    axpy(context(), mine.parameters.write(), static_cast<float>(-rate),
         unsent_);
  }
  if (owners_.parameters == Owner::kWorker)
    average(world_, {{mine.parameters.write()}});
  if (owners_.buffers == Owner::kWorker && !mine.buffers.empty())
    average(world_, {{mine.buffers}});
  if (owners_.optimizer != Owner::kWorker || !mine.optimizer) return;
  for (const std::span<float> state : mine.optimizer->state())
    average(world_, {{state}});
  // Workers at their own speed have different counts.
  double steps = static_cast<double>(mine.optimizer->steps());
  agree(endpoint(), world_, std::span(&steps, 1), Combine::kSum,
        tags::kControl);
  mine.optimizer->set_steps(std::llround(steps / size()));
}

void SchemeBase::evaluation_model(EvalModel which,
                                  std::span<float> parameters,
                                  std::span<float> buffers) {
  fetch_model(which, replica().parameters, replica().buffers, parameters,
              buffers);
}

void SchemeBase::fetch_model(EvalModel which,
                             std::span<const float> held_parameters,
                             std::span<const float> held_buffers,
                             std::span<float> parameters,
                             std::span<float> buffers) {
  CHECK_MSG(which != EvalModel::kCentre, "{} has no centre",
            parts_.sync.scheme);
  Device& device = context().device();
  Stream& stream = context().stream();
  const auto fetch = [&](std::span<float> to, std::span<const float> from,
                         Owner owner) {
    device.copy(to.data(), from.data(), static_cast<int64_t>(to.size_bytes()),
                stream);
    if (which == EvalModel::kEach || size() == 1 || to.empty() ||
        owner == Owner::kShared)
      return;
    if (which == EvalModel::kAverage)
      return mean_over_workers(context(), endpoint(), to);
    copy_from_worker(context(), endpoint(), to, 0, tags::kEvaluation,
                     Traffic::kEvaluation);
  };
  fetch(parameters, held_parameters, owners_.parameters);
  fetch(buffers, held_buffers, owners_.buffers);
}

void SchemeBase::visit_state(StateVisitor& visitor) {
  visit_state_with(visitor, replica().parameters.write(), replica().buffers);
}

void SchemeBase::visit_state_with(StateVisitor& visitor,
                                  const DeviceVector<float>& parameters,
                                  const DeviceVector<float>& buffers) {
  pace_->visit_state(visitor);
  visitor.visit_device_range(owners_.parameters, "parameters",
                             parts_.model.parameters(), parameters);
  visitor.visit_device_range(owners_.buffers, "buffers", parts_.model.buffers(),
                             buffers);
  if (replica().optimizer)
    replica().optimizer->visit_state(visitor, owners_.optimizer);
  for (const auto& visit : kept_) visit(visitor);
}

void SchemeBase::keep(std::function<void(StateVisitor&)> visit) {
  kept_.push_back(std::move(visit));
}

std::span<float> SchemeBase::keep_range(Owner owner, std::string name) {
  const DeviceVector<float>& range =
      kept_ranges_.emplace_back(make_range(replica().parameters.size()));
  keep([=, this, &range](StateVisitor& visitor) {
    visitor.visit_device_range(owner, name, parts_.model.parameters(), range);
  });
  return range;
}

DeviceVector<float> SchemeBase::make_range(int64_t elems) {
  return {context().device(), context().stream(), elems};
}

void SchemeBase::fill_zero(std::span<float> range) {
  context().device().fill_zero(range.data(),
                               static_cast<int64_t>(range.size_bytes()),
                               context().stream());
}

SyncTimes SchemeBase::take_times() {
  return std::exchange(times_, SyncTimes{});
}

}  // namespace syncopate
