// click_feed INPUT.ini [--SECTION.KEY=VALUE...]: what the host can do for a run
// on clicks: how fast it makes the order of an epoch, and batches, with a few
// numbers of threads.
#include <fmt/format.h>

#include "base/clock.h"
#include "config/config.h"
#include "data/thread_pool.h"
#include "problem/problem.h"
#include "problem/setup.h"

namespace syncopate {
namespace {

constexpr double kSeconds = 3;  // of each measurement

void measure_order(const Setup& setup, const SampleTable& table) {
  const double begin_s = monotonic_s();
  const Sampler sampler(setup.options.data, table, setup.split.train, 1, 1);
  const double made_s = monotonic_s();
  sampler.batch(0, 0);
  const double seconds = monotonic_s() - made_s;
  fmt::print(
      "order     {} samples: {:.3f} s, {:.1f} ns a sample; sampler {:.3f} s\n",
      setup.split.train.size(), seconds,
      1e9 * seconds / static_cast<double>(setup.split.train.size()),
      made_s - begin_s);
}

void measure_feed(Setup& setup, Problem& problem, int threads) {
  setup.feed_threads = threads;
  problem.prepare(setup, 1);
  const auto feed = problem.make_feed(setup, 0, 0);
  feed->next();  // begins with the order
  const double begin_s = monotonic_s();
  int64_t samples = 0;
  while (monotonic_s() < begin_s + kSeconds) samples += feed->next().samples;
  fmt::print("batches   {} thread{}: {:.2f} million samples/s\n", threads,
             threads == 1 ? "" : "s",
             1e-6 * static_cast<double>(samples) / (monotonic_s() - begin_s));
}

void measure(const std::string& path, const std::vector<std::string>& keys) {
  const ParsedInput input = parse_input(path, keys);
  refuse_errors(input);
  Setup setup;
  setup.options = input.options;
  setup.device = make_cpu_device();
  setup.stream = setup.device->make_stream();
  setup.context = std::make_unique<Context>(*setup.device, *setup.stream, 1,
                                            Determinism::kRequired);
  const auto problem = make_problem(setup.options, 1);
  const SampleTable table = problem->training_samples();
  setup.split = split_validation(setup.options.data, table, 1);
  setup.sampler = std::make_unique<Sampler>(setup.options.data, table,
                                            setup.split.train, 1, 1);
  fmt::print("{}, batch {}, {} cores\n", problem->source(),
             setup.options.data.batch, usable_cores());
  measure_order(setup, table);
  for (int threads = 1; threads <= usable_cores(); threads *= 2)
    measure_feed(setup, *problem, threads);
}

}  // namespace
}  // namespace syncopate

int main(int argc, char** argv) {
  try {
    if (argc < 2)
      syncopate::fail(syncopate::ExitCode::kUsage, "click_feed INPUT.ini");
    syncopate::measure(argv[1], {argv + 2, argv + argc});
    return 0;
  } catch (const syncopate::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
