#include "app/bench_step.h"

#include "base/clock.h"
#include "comm/tags.h"

namespace syncopate {

StepBench::StepBench(Session& session, Engine& engine, Endpoint& endpoint)
    : session_(session),
      engine_(engine),
      endpoint_(endpoint),
      replica_(*engine.context, *engine.model, engine.options.optimizer),
      schedule_(engine.schedule_of(engine.options, endpoint.rank())),
      transport_(session.size() > 1
                     ? choose_transport(engine,
                                        session.hosts()[session.rank()],
                                        endpoint)
                     : DeviceTransport()),
      bucketer_(engine.model->parameters(),
                engine.options.sync,
                transport_.collectives.get()),
      feed_(engine.problem->make_feed(engine, endpoint.rank(), 0)) {
  if (session.size() > 1) {
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
                         .total_steps = engine.plan.total_steps,
                         .steps_per_epoch = engine.plan.steps_per_epoch,
                         .collectives = transport_.collectives.get()});
  std::vector<float> parameters(replica_.parameters.size());
  std::vector<float> buffers(replica_.buffers.size());
  engine.model->initialise(parameters, buffers, 1);
  replica_.parameters.assign(parameters);
  replica_.buffers.assign(buffers);
  scheme_->enter();
  constexpr int64_t kFarAway = int64_t{1} << 40;  // more than a bench does
  scheme_->begin({0, kFarAway, endpoint.now()});
}

std::unique_ptr<Event> StepBench::mark() {
  std::unique_ptr<Event> event = engine_.device->make_event();
  event->record(*engine_.stream);
  return event;
}

std::vector<StepBench::Part> StepBench::forward_backward() {
  const auto on_final = [&](int64_t from) {
    bucketer_.final_from(from, [&](const Bucket& bucket) {
      if (session_.size() > 1)
        scheme_->gradient_ready(bucket);
      else
        ready_.push_back(bucket);
    });
  };
  std::vector<Part> parts;
  const int64_t accumulate = engine_.options.data.accumulate;
  for (int64_t i = 0; i < accumulate; ++i) {
    const Batch batch = feed_->next();
    Part& part = parts.emplace_back();
    part.has_batch = mark();
    part.sums = engine_.model->forward_backward(
        *engine_.context, replica_.view(), batch,
        {.loss_samples = static_cast<double>(batch.samples * accumulate),
         .records = engine_.records_steps(),
         .segment_offsets = segment_offsets_},
        i + 1 == accumulate ? GradientListener(on_final) : GradientListener());
    part.has_gradients = mark();
  }
  return parts;
}

StepBench::Marks StepBench::one_step(const Plan& plan) {
  Marks marks{mark(), nullptr, {}};
  engine_.device->fill_zero(replica_.gradients.data(),
                            replica_.gradients.size() * 4, *engine_.stream);
  bucketer_.start();
  marks.parts = forward_backward();
  for (const Bucket& bucket : ready_) scheme_->gradient_ready(bucket);
  ready_.clear();
  scheme_->update(plan);
  scheme_->end_step(plan);
  marks.end = mark();
  return marks;
}

StepTimes StepBench::run() {
  constexpr int kWarmup = 3;
  const int together = engine_.device->kind() == DeviceKind::kCpu ? 1 : 10;
  StepTimes times;
  std::vector<Marks> steps;
  const double begin_all = monotonic_s();
  for (int i = 0; i < kWarmup + 200; i += together) {
    std::vector<double> verdict = {
        i >= kWarmup + 20 && monotonic_s() - begin_all > 10 ? 1.0 : 0.0};
    agree(endpoint_, endpoint_.world_group(), verdict, Combine::kMax,
          tags::kControl);
    if (verdict[0] > 0) break;
    steps.clear();
    const double begin = monotonic_s();
    for (int step = 0; step < together; ++step) {
      steps.push_back(one_step(scheme_->next({})));
      // The loss of the step before, as the trainer looks at it.
      if (step > 0)
        for (const Part& part : steps[step - 1].parts)
          static_cast<void>(part.sums.get());
    }
    engine_.stream->synchronize();
    if (i < kWarmup) continue;
    times.step_s.push_back((monotonic_s() - begin) / together);
    for (const Marks& step : steps) {
      double data_s = 0, forward_s = 0, backward_s = 0;
      const Event* before = step.begin.get();
      for (const Part& part : step.parts) {
        data_s += part.has_batch->seconds_since(*before);
        forward_s += part.sums.arrived().seconds_since(*part.has_batch);
        backward_s += part.has_gradients->seconds_since(part.sums.arrived());
        before = part.has_gradients.get();
      }
      times.data_s.push_back(data_s);
      times.forward_s.push_back(forward_s);
      times.backward_s.push_back(backward_s);
      times.update_s.push_back(step.end->seconds_since(*before));
    }
  }
  // All ask for the end; who is given a step more takes it.
  for (Plan plan = scheme_->next({.stop = 1}); !plan.stop;
       plan = scheme_->next({.stop = 1}))
    one_step(plan);
  scheme_->quiesce();
  const int64_t state =
      replica_.optimizer ? replica_.optimizer->state_elems() : 0;
  times.replica_bytes =
      4 * (replica_.parameters.size() + replica_.gradients.size() +
           replica_.buffers.size() + state);
  return times;
}

}  // namespace syncopate
