// syncopate bench ops|comm|layers|step INPUT.ini: repeatable throughput, and
// for ops --tune=FILE the libraries' fastest plans. Prints medians over
// repetitions after a warm-up, one per line, the headline last.
#include <numeric>
#include <variant>

#include "app/bench_comm.h"
#include "app/commands.h"
#include "base/median.h"
#include "base/memory_left.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "machine/bench.h"
#include "machine/bench_step.h"
#include "machine/measured_compute.h"
#include "ops/library.h"

namespace syncopate {
namespace {

// On cores without other work, step times vary by a few per cent.
constexpr double kBusySpread = 0.5;

void bench_step(Session& session, Engine& engine) {
  const auto world = session.make_world(engine.workers, NetworkCost{});
  world->run([&](Endpoint& endpoint) {
    const StepTimes times = StepBench(session, engine, endpoint).run();
    MeasuredCompute measured = measured_compute(endpoint, times);
    // With others, the rest of a step includes their messages.
    if (endpoint.size() == 1)
      measured.options.update_s = median(times.update_s);
    // The largest process's.
    std::vector<double> memory_mb = {1e-6 *
                                     static_cast<double>(peak_memory_bytes())};
    agree(endpoint, endpoint.world_group(), memory_mb, Combine::kMax,
          tags::kControl);
    if (endpoint.rank() != 0) return;
    if (times.step_s.empty())
      fail(ExitCode::kInternal, "bench step: worker 0 was given no step");
    // The median for images, as in the peer's script. The mean for others, as
    // in theirs, because steps of questions differ in length.
    const double step_s =
        std::holds_alternative<ImageSpec>(engine.problem->spec())
            ? median(times.step_s)
            : std::accumulate(times.step_s.begin(), times.step_s.end(), 0.0) /
                  static_cast<double>(times.step_s.size());
    const auto samples = static_cast<double>(engine.samples_a_step);
    Log& log = session.log();
    log.line("workers {} x {} threads, batch {} each, {}, {} timings",
             endpoint.size(), engine.threads, engine.options.data.batch,
             engine.options.run.precision, times.step_s.size());
    for (const auto& [what, seconds] : {std::pair("data", &times.data_s),
                                        {"forward", &times.forward_s},
                                        {"backward", &times.backward_s},
                                        {"update", &times.update_s}})
      log.line("{:<9} {:9.3f} ms", what, 1e3 * median(*seconds));
    // The backward pass has twice the arithmetic of the forward pass.
    log.line("arithmetic {:8.1f} GFLOP/s",
             3 * 2 * engine.model->forward_macs() * samples / step_s * 1e-9);
    log.line("replica   {:.3f} MB: parameters, gradients, optimizer, buffers",
             1e-6 * static_cast<double>(engine.replica_bytes()));
    log.line("memory    {:.0f} MB at most, resident", memory_mb[0]);
    log.line("[compute]   # for simulate and advise");
    for (const std::string& text : measured.lines()) log.line("{}", text);
    if (measured.options.spread > kBusySpread)
      log.warning(
          fmt::format("step times deviate by {:.0f}% of their mean: other "
                      "programs seem to use the same cores; measure again "
                      "without them",
                      100 * measured.options.spread));
    log.line("step: {:.3f} ms, {:.1f} samples/s", 1e3 * step_s,
             samples / step_s);
  });
}

void check_bench(const Session& session,
                 const std::string& kind,
                 const Engine& engine) {
  if ((kind == "step" || kind == "layers") &&
      !engine.options.sync.asp.replay.empty())
    fail(ExitCode::kBadInput,
         "asp.replay: bench takes different steps from those recorded; "
         "expected none");
  if (kind == "plans" && engine.device->kind() != DeviceKind::kCuda)
    fail(ExitCode::kBadInput, "run.device: is cpu, but --tune needs a GPU");
  if (kind == "plans" && engine.workers > 1)
    fail(ExitCode::kBadInput,
         "run.workers: {}: --tune measures with one, expected 1",
         engine.workers);
  if (kind == "layers" && session.size() == 1 && engine.workers > 1)
    fail(ExitCode::kBadInput,
         "run.workers: {} workers in one process share what is timed, expected "
         "1 (or a launcher such as mpiexec)",
         engine.workers);
}

}  // namespace

ExitCode command_bench(Session& session, const CommandLine& line) {
  std::unique_ptr<Engine> engine;
  CommBench comm;
  bool tunes = false;  // bench ops --tune=FILE
  session.agree_on([&] {
    const auto& words = line.positional;
    const bool is_comm = words.size() == 2 && words[0] == "comm";
    const bool is_ops = words.size() == 2 && words[0] == "ops";
    line.allow_only(is_comm ? std::vector<std::string>{"bytes", "by", "repeats"}
                    : is_ops ? std::vector<std::string>{"tune"}
                             : std::vector<std::string>{},
                    CommandLine::Keys::kTaken);
    if (words.size() != 2 || (words[0] != "ops" && words[0] != "comm" &&
                              words[0] != "layers" && words[0] != "step"))
      fail(ExitCode::kUsage,
           "bench: expected: bench ops|comm|layers|step INPUT.ini");
    if (is_comm) comm = comm_bench(line);
    tunes = line.options.contains("tune");
    if (tunes && cuda_device_count() == 0)
      fail(ExitCode::kInputMissing,
           "bench ops --tune: measures plans of a GPU, and there is none: {}",
           cuda_devices_missing());
    engine = build_engine(session, words[1], line.overrides);
    check_bench(session, tunes ? "plans" : words[0], *engine);
  });
  if (tunes) {
    bench_plans(session, *engine, line.options.at("tune"));
    return ExitCode::kDone;
  }
  if (line.positional[0] == "step") bench_step(session, *engine);
  if (line.positional[0] == "layers") bench_layers(session, *engine);
  if (line.positional[0] == "comm") run_comm_bench(session, *engine, comm);
  if (line.positional[0] == "ops" && session.rank() == 0)
    bench_ops(session.log(), *engine->context, engine->options.data.batch,
              engine->options.run.precision == Precision::kBf16 ? DType::kBf16
                                                                : DType::kF32);
  return ExitCode::kDone;
}

}  // namespace syncopate
