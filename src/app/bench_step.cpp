#include "app/bench_step.h"

#include "base/clock.h"
#include "comm/tags.h"

namespace syncopate {

StepBench::StepBench(Session& session, Engine& engine, Endpoint& endpoint)
    : session_(session),
      engine_(engine),
      endpoint_(endpoint),
      replica_(*engine.context, *engine.model, engine.options.optimizer),
      schedule_(engine.options.schedule,
                engine.scaled_lr,
                engine.plan.horizon,
                engine.plan.steps_per_epoch),
      transport_(session.size() > 1
                     ? choose_transport(engine,
                                        session.hosts()[session.rank()],
                                        endpoint)
                     : DeviceTransport()),
      bucketer_(
          engine.model->parameters().num_elems(),
          bucket_elems(engine.options.sync, transport_.collectives.get())),
      feed_(Feed::make(engine, endpoint.rank(), 0)) {
  if (session.size() > 1) {
    transport_ =
        choose_transport(engine, session.hosts()[session.rank()], endpoint);
    for (const Bucket& bucket : bucketer_.buckets())
      segment_offsets_.push_back(bucket.offset);
  }
  if (endpoint.rank() == 0 && !transport_.text.empty())
    session.log().line("transport {}", transport_.text);
  scheme_ = make_scheme({.endpoint = endpoint,
                         .context = *engine.context,
                         .replica = replica_,
                         .model = *engine.model,
                         .sync = engine.options.sync,
                         .optimizer = engine.options.optimizer,
                         .schedule = schedule_,
                         .stop_at_worker_steps = INT64_MAX,
                         .collectives = transport_.collectives.get()});
  std::vector<float> parameters(replica_.parameters.size());
  std::vector<float> buffers(replica_.buffers.size());
  engine.model->initialise(parameters, buffers, 1);
  replica_.parameters.assign(parameters);
  replica_.buffers.assign(buffers);
}

std::vector<PendingSums> StepBench::forward_backward() {
  const auto on_final = [&](int64_t from) {
    bucketer_.final_from(from, [&](const Bucket& bucket) {
      if (session_.size() > 1)
        scheme_->gradient_ready(bucket);
      else
        ready_.push_back(bucket);
    });
  };
  std::vector<PendingSums> sums;
  const int64_t accumulate = engine_.options.data.accumulate;
  for (int64_t part = 0; part < accumulate; ++part) {
    const Batch batch = feed_->next();
    sums.push_back(engine_.model->forward_backward(
        *engine_.context, replica_.view(), batch,
        {.loss_samples = static_cast<double>(batch.samples * accumulate),
         .records = engine_.records_steps(),
         .segment_offsets = segment_offsets_},
        part + 1 == accumulate ? GradientListener(on_final)
                               : GradientListener()));
  }
  return sums;
}

void StepBench::one_step(StepTimes& times) {
  const double begin = monotonic_s();
  const Plan plan = scheme_->next();
  const double waited_before = feed_->wait_s();
  engine_.device->fill_zero(replica_.gradients.data(),
                            replica_.gradients.size() * 4, *engine_.stream);
  bucketer_.start();
  std::vector<PendingSums> sums = forward_backward();
  const double waited = feed_->wait_s() - waited_before;
  for (const Bucket& bucket : ready_) scheme_->gradient_ready(bucket);
  ready_.clear();
  const double has_gradient = monotonic_s();
  scheme_->update(plan);
  scheme_->end_step(plan);
  // The loss of the step before, as the trainer looks at it.
  for (const PendingSums& batch : pending_) static_cast<void>(batch.get());
  pending_ = std::move(sums);
  times.data_s.push_back(waited);
  times.compute_s.push_back(has_gradient - begin - waited);
  times.update_s.push_back(monotonic_s() - has_gradient);
}

StepTimes StepBench::run() {
  constexpr int kWarmup = 3;
  // The host runs ahead of a GPU: only some steps together have a time.
  const int together = engine_.device->kind() == DeviceKind::kCpu ? 1 : 10;
  StepTimes times;
  const double begin_all = monotonic_s();
  for (int i = 0; i < kWarmup + 200; i += together) {
    std::vector<double> verdict = {
        i >= kWarmup + 20 && monotonic_s() - begin_all > 10 ? 1.0 : 0.0};
    agree(endpoint_, endpoint_.world_group(), verdict, Combine::kMax,
          tags::kControl);
    if (verdict[0] > 0) break;
    if (i < kWarmup) times = {};
    const double begin = monotonic_s();
    for (int step = 0; step < together; ++step) one_step(times);
    engine_.stream->synchronize();
    if (i >= kWarmup)
      times.step_s.push_back((monotonic_s() - begin) / together);
  }
  scheme_->quiesce();
  return times;
}

}  // namespace syncopate
