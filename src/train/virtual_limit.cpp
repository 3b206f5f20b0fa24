#include "train/virtual_limit.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "run/signals.h"
#include "train/simulation.h"

namespace syncopate {
namespace {

// Times of many steps are sums, with the rounding errors of sums: 200 steps of
// 0.1 s fit into 20 s.
constexpr double kRounding = 1e-9;

// Runs that are tried grow by this factor at most, because the first steps may
// be unlike the others.
constexpr double kGrowth = 8;
constexpr int64_t kSteady = 512;

constexpr double kPatience_s = 2;  // between lines of the log

std::string obstacle_to(const Engine& engine, int64_t steps) {
  return scheme_obstacle({engine.options.sync, engine.options.optimizer,
                          engine.model->parameters(), engine.workers, steps});
}

// Returns a short run that has all phases of sync_switch.
int64_t shortest_run(const Engine& engine) {
  int64_t steps = 1;
  while (steps < kMostLimitedSteps && !obstacle_to(engine, steps).empty())
    steps *= 2;
  return steps;
}

[[noreturn]] void refuse(const Engine& engine, const std::string& what) {
  engine.input.refuse("run.virtual_limit_s: " + what);
}

}  // namespace

TimedLength longest_within(Time limit_s,
                           int64_t shortest,
                           int64_t most,
                           const std::function<Time(int64_t)>& ends_at) {
  limit_s *= 1 + kRounding;
  TimedLength fits{shortest, ends_at(shortest)};
  std::optional<TimedLength> longer;  // which does not fit
  int64_t width = INT64_MAX;          // between the two, a trial before
  while (fits.ends_at <= limit_s && fits.steps <= most) {
    const Time left_s = limit_s - fits.ends_at;
    int64_t next = 0;
    if (!longer) {
      const double further =
          left_s / fits.ends_at * static_cast<double>(fits.steps);
      // From here on, steps are alike.
      if (fits.steps >= kSteady && further > 2 * static_cast<double>(most))
        return {most + 1, fits.ends_at};
      const double most_further =
          (kGrowth - 1) * static_cast<double>(fits.steps);
      next = fits.steps + std::max<int64_t>(1, static_cast<int64_t>(std::min(
                                                   further, most_further)));
    } else {
      const int64_t between = longer->steps - fits.steps;
      if (between == 1) break;
      const double share = left_s / (longer->ends_at - fits.ends_at);
      const bool is_slow = between > width / 2;
      next = fits.steps +
             std::clamp<int64_t>(
                 is_slow ? between / 2
                         : std::llround(share * static_cast<double>(between)),
                 1, between - 1);
      width = between;
    }
    const TimedLength tried{next, ends_at(next)};
    if (tried.ends_at <= limit_s)
      fits = tried;
    else
      longer = tried;
  }
  return fits;
}

TimedLength longest_within_limit(Engine& engine, Log& log) {
  // A fault ends the run, or changes values; a record is for the run to write.
  engine.options.faults.kind = FaultKind::kNone;
  engine.options.sync.asp.record = false;
  try {
    check_simulation(engine);
  } catch (const Error& error) {
    refuse(engine,
           fmt::format("is resolved by a simulation; {}", error.what()));
  }
  const Time limit_s = engine.options.run.virtual_limit_s;
  double say_next_s = monotonic_s() + kPatience_s;
  const TimedLength length = longest_within(
      limit_s, shortest_run(engine), kMostLimitedSteps, [&](int64_t steps) {
        engine.plan.total_steps = engine.plan.stop_at = steps;
        Time end = 0;
        for (const SimulatedWork& mine : simulate(engine, Fidelity::kExact))
          end = std::max(end, mine.ended_at);
        if (const StopRequest stop = requested_stop();
            stop != StopRequest::kNone)
          fail(stop == StopRequest::kInterrupt ? ExitCode::kInterrupted
                                               : ExitCode::kStopped,
               "stopped while run.virtual_limit_s was resolved, before the "
               "first step");
        if (monotonic_s() > say_next_s) {
          log.line(
              "limit     simulating how many steps fit into {:.6g} s: {} "
              "end at {:.6g} s",
              limit_s, steps, end);
          say_next_s = monotonic_s() + kPatience_s;
        }
        return end;
      });
  if (length.ends_at > limit_s * (1 + kRounding))
    refuse(engine, fmt::format("is {:.6g} s, but {} take{} {:.6g} s", limit_s,
                               length.steps == 1
                                   ? std::string("one step")
                                   : fmt::format("{} steps", length.steps),
                               length.steps == 1 ? "s" : "", length.ends_at));
  if (length.steps > kMostLimitedSteps)
    refuse(
        engine,
        fmt::format("is {:.6g} s, into which more than {} steps fit; expected "
                    "a shorter time, or run.steps",
                    limit_s, kMostLimitedSteps));
  return length;
}

}  // namespace syncopate
