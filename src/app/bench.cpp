// syncopate bench ops|comm|step INPUT.ini: repeatable throughput. Medians over
// repetitions after a warm-up; one line a figure, the last one the headline.
#include <algorithm>
#include <functional>
#include <numeric>

#include "app/bench_ops.h"
#include "app/commands.h"
#include "app/engine.h"
#include "app/median.h"
#include "base/clock.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "sync/bucket.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

// The figures that a worker measures for each of its steps.
struct StepTimes {
  std::vector<double> data_s, compute_s, update_s, step_s;
};

// Whole training steps as the trainer runs them, without rows and agreement.
StepTimes time_steps(Session& session, Engine& engine, Endpoint& endpoint) {
  constexpr int kWarmup = 3;
  const ParameterTable& table = engine.model->parameters();
  Replica replica;
  replica.parameters.resize(table.num_elems());
  replica.gradients.resize(table.num_elems());
  replica.buffers.resize(engine.model->buffers().num_elems());
  replica.optimizer =
      make_optimizer(engine.options.optimizer, table, 0, table.num_elems());
  engine.model->initialise(replica.view(), 1);
  const Schedule schedule(engine.options.schedule, engine.scaled_lr,
                          engine.plan.horizon, engine.plan.steps_per_epoch);
  const auto scheme = make_scheme({.endpoint = endpoint,
                                   .context = *engine.context,
                                   .replica = replica,
                                   .model = *engine.model,
                                   .sync = engine.options.sync,
                                   .optimizer = engine.options.optimizer,
                                   .schedule = schedule,
                                   .stop_at_worker_steps = INT64_MAX});
  Bucketer bucketer(
      table.num_elems(),
      static_cast<int64_t>(engine.options.sync.bucket_mb * 1e6 / 4));
  Loader loader(engine.options.data, engine.dataset.train, engine.normalization,
                *engine.sampler, endpoint.rank(), 1, 0);
  StepTimes times;
  const double begin_all = monotonic_s();
  // At least 20 steps, and at least 10 s or 200 steps.
  for (int i = 0; i < kWarmup + 200; ++i) {
    std::vector<double> verdict = {
        i >= kWarmup + 20 && monotonic_s() - begin_all > 10 ? 1.0 : 0.0};
    agree(endpoint, endpoint.world_group(), verdict, Combine::kMax,
          tags::kControl);
    if (verdict[0] > 0) break;
    const double begin = monotonic_s();
    const Plan plan = scheme->next();
    const double waited_before = loader.wait_s();
    std::ranges::fill(replica.gradients, 0.0f);
    bucketer.start();
    std::vector<Bucket> ready;  // in one process: after backward
    const auto on_final = [&](int64_t from) {
      bucketer.final_from(from, [&](const Bucket& bucket) {
        if (session.size() > 1)
          scheme->gradient_ready(bucket);
        else
          ready.push_back(bucket);
      });
    };
    const int64_t accumulate = engine.options.data.accumulate;
    for (int64_t part = 0; part < accumulate; ++part) {
      const Batch batch = loader.next();
      engine.model->forward_backward(
          *engine.context, replica.view(), batch,
          {.loss_samples = static_cast<double>(batch.samples * accumulate)},
          part + 1 == accumulate ? GradientListener(on_final)
                                 : GradientListener());
    }
    const double waited = loader.wait_s() - waited_before;
    for (const Bucket& bucket : ready) scheme->gradient_ready(bucket);
    const double has_gradient = monotonic_s();
    scheme->update(plan);
    scheme->end_step(plan);
    const double end = monotonic_s();
    if (i < kWarmup) continue;
    times.data_s.push_back(waited);
    times.compute_s.push_back(has_gradient - begin - waited);
    times.update_s.push_back(end - has_gradient);
    times.step_s.push_back(end - begin);
  }
  return times;
}

void bench_step(Session& session, Engine& engine) {
  const auto world = session.make_world(engine.workers, NetworkCost{});
  world->run([&](Endpoint& endpoint) {
    const StepTimes times = time_steps(session, engine, endpoint);
    if (endpoint.rank() != 0) return;
    const double step_s = median(times.step_s);
    const auto samples =
        static_cast<double>(engine.options.data.batch *
                            engine.options.data.accumulate * endpoint.size());
    Log& log = session.log();
    log.line("workers {} x {} threads, batch {} each, {}, {} steps timed",
             endpoint.size(), engine.threads, engine.options.data.batch,
             engine.options.run.precision, times.step_s.size());
    log.line("data      {:9.3f} ms", 1e3 * median(times.data_s));
    log.line("compute   {:9.3f} ms", 1e3 * median(times.compute_s));
    log.line("update    {:9.3f} ms", 1e3 * median(times.update_s));
    // Backward is twice forward.
    log.line("arithmetic {:8.1f} GFLOP/s",
             3 * 2 * engine.model->forward_macs() * samples / step_s * 1e-9);
    log.line("step: {:.3f} ms, {:.1f} images/s", 1e3 * step_s,
             samples / step_s);
  });
}

void bench_comm(Session& session, const Engine& engine) {
  if (engine.workers == 1)
    throw AgreedError(Error(ExitCode::kUsage,
                            "bench comm: one worker has nobody to talk to: "
                            "run.workers = N, or mpiexec -n N"));
  const auto world = session.make_world(engine.workers, NetworkCost{});
  session.log().line("{}", world->description());
  session.log().line("{:>12} {:>8} {:>12} {:>14}", "bytes", "by",
                     "microseconds", "bus MB/s");
  world->run([&](Endpoint& endpoint) {
    const Group group = endpoint.world_group();
    for (const int64_t bytes : {8, 4 << 10, 256 << 10, 4 << 20, 64 << 20}) {
      for (const auto algorithm :
           {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kNative}) {
        std::vector<float> values(bytes / 4, 1.0f);
        std::vector<double> seconds;
        const int repeats = bytes > (1 << 20) ? 7 : 51;
        for (int i = 0; i < repeats; ++i) {
          barrier(endpoint, group, tags::kControl);
          const double begin = monotonic_s();
          all_reduce_sum(endpoint, group, values, algorithm, Wire::kF32,
                         tags::kCollective, Traffic::kPayload);
          seconds.push_back(monotonic_s() - begin);
        }
        const double time_s = median(seconds);
        const double share = 2.0 * (group.size() - 1) / group.size();
        if (endpoint.rank() == 0)
          session.log().line(
              "{:>12} {:>8} {:>12.1f} {:>14.1f}", bytes,
              algorithm == CollectiveAlgorithm::kRing ? "ring" : "native",
              1e6 * time_s, share * static_cast<double>(bytes) / time_s * 1e-6);
      }
    }
  });
}

}  // namespace

ExitCode command_bench(Session& session, const CommandLine& line) {
  std::unique_ptr<Engine> engine;
  session.agree_on([&] {
    line.allow_only({}, CommandLine::Keys::kTaken);
    const auto& words = line.positional;
    if (words.size() != 2 ||
        (words[0] != "ops" && words[0] != "comm" && words[0] != "step"))
      fail(ExitCode::kUsage, "bench: expected: bench ops|comm|step INPUT.ini");
    engine = build_engine(session, words[1], line.overrides);
  });
  if (line.positional[0] == "step") bench_step(session, *engine);
  if (line.positional[0] == "comm") bench_comm(session, *engine);
  if (line.positional[0] == "ops" && session.rank() == 0)
    bench_ops(session.log(), *engine->context, engine->options.data.batch);
  return ExitCode::kDone;
}

}  // namespace syncopate
