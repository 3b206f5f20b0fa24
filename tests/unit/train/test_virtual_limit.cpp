// run.virtual_limit_s: the number of steps that it becomes, for times that are
// given and for those of simulated runs.
// SPDX-License-Identifier: Apache-2.0
#include "train/virtual_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/scratch_folder.h"
#include "train/simulation.h"

namespace syncopate {
namespace {

// Counts its calls, and how many steps they took together.
struct Clock {
  std::function<double(int64_t)> ends_at;
  int64_t calls = 0, steps = 0;
  double operator()(int64_t of) {
    ++calls;
    steps += of;
    return ends_at(of);
  }
};

int64_t longest(Clock& clock, double limit_s, int64_t most = 1'000'000) {
  return longest_within(limit_s, 1, most, std::ref(clock)).steps;
}

TEST(LongestWithin, IsTheLastLengthThatFits) {
  const auto noisy = [](int64_t n) {
    return 0.3 + 0.01 * static_cast<double>(n) +
           0.004 * std::sin(static_cast<double>(n));
  };
  const auto rounds_of_8 = [](int64_t n) {
    return 0.01 * static_cast<double>(n) + static_cast<double>(n / 8);
  };
  const auto slower_later = [](int64_t n) {
    return std::pow(static_cast<double>(n), 1.5);
  };
  const auto faster_later = [](int64_t n) {
    return std::sqrt(static_cast<double>(n));
  };
  const std::vector<std::function<double(int64_t)>> clocks = {
      noisy, rounds_of_8, slower_later, faster_later};
  for (size_t i = 0; i < clocks.size(); ++i)
    for (const double limit_s : {1.5, 7.77, 63.0, 400.0}) {
      SCOPED_TRACE(fmt::format("clock {}, limit {}", i, limit_s));
      Clock clock{clocks[i]};
      const int64_t steps = longest(clock, limit_s);
      EXPECT_LE(clock.ends_at(steps), limit_s);
      EXPECT_GT(clock.ends_at(steps + 1), limit_s);
      EXPECT_LE(clock.calls, 30);
    }
}

// Each trial near the result costs as much as the run's simulation.
TEST(LongestWithin, NeedsFewLongTrials) {
  Clock clock{[](int64_t n) {
    return 0.2 + 0.0123 * static_cast<double>(n) +
           0.003 * std::sin(static_cast<double>(n));
  }};
  const int64_t steps = longest(clock, 1000);
  EXPECT_LE(clock.steps, 6 * steps);
}

TEST(LongestWithin, RoundingErrorsOfSumsCostNoStep) {
  const auto sum = [](int64_t n) {
    double time = 0;
    for (int64_t i = 0; i < n; ++i) time += 0.1;
    return time;
  };
  for (const int64_t steps : {3, 60, 1000, 100'000}) {
    Clock clock{sum};
    EXPECT_EQ(longest(clock, 0.1 * static_cast<double>(steps)), steps);
  }
}

TEST(LongestWithin, ReportsLimitsThatAreTooShortOrTooLong) {
  Clock slow{[](int64_t n) { return static_cast<double>(n); }};
  const TimedLength one = longest_within(0.5, 1, 100, std::ref(slow));
  EXPECT_EQ(one.steps, 1);
  EXPECT_EQ(one.ends_at, 1);
  EXPECT_EQ(slow.calls, 1);
  Clock fast{slow.ends_at};
  EXPECT_GT(longest(fast, 1e12), 1'000'000);
  EXPECT_LT(fast.steps, 10'000) << "without trying so many";
  Clock standing{[](int64_t) { return 0.0; }};
  EXPECT_GT(longest(standing, 1), 1'000'000);
}

// --- of runs -----------------------------------------------------------------

constexpr const char* kInput = R"(
[run]
threads = 1
device = cpu
workers = 4
virtual_limit_s = 1
[model]
family = logistic
[data]
kind = synthetic_images
samples = 96
test_samples = 4
classes = 2
height = 4
width = 4
batch = 4
[schedule]
kind = cosine
warmup = 5
[eval]
every = 7
batch = 4
[compute]
step_s = 0.02
law = lognormal
spread = 0.3
speed = 1, 1, 1, 3
[network]
mbit_s = 5
latency_us = 500
[stragglers]
delay_ms = 15
delay_workers = 1
delay_from = 3
)";

class VirtualLimit : public testing::Test {
 protected:
  std::unique_ptr<Engine> build(const std::vector<std::string>& overrides,
                                EngineUse use = EngineUse::kSimulate,
                                const std::optional<SavedRun>& saved = {}) {
    const std::string input = folder_ / "in.ini";
    std::ofstream(input) << kInput;
    return build_engine(session_, input, overrides, use, saved);
  }

  static double end_of(Engine& engine, int64_t steps) {
    engine.plan.total_steps = engine.plan.stop_at = steps;
    double end = 0;
    for (const SimulatedWork& work : simulate(engine, Fidelity::kExact))
      end = std::max(end, work.ended_at);
    return end;
  }

 private:
  char name_[10] = "limit";
  char* argv_[1] = {name_};
  Session session_{1, argv_};
  ScratchFolder folder_;
};

TEST_F(VirtualLimit, BecomesTheStepsAndTheHorizon) {
  for (const auto& keys : std::vector<std::vector<std::string>>{
           {"--sync.scheme=bsp"},
           {"--sync.scheme=asp"},
           {"--sync.scheme=ssp"},
           {"--sync.scheme=esync"},
           {"--sync.scheme=local_sgd", "--local_sgd.steps=6"},
           {"--sync.scheme=sgp"},
           {"--sync.scheme=sync_switch", "--sync_switch.order=10",
            "--sync_switch.fractions=0.25,0.75"}}) {
    SCOPED_TRACE(keys[0]);
    const auto engine = build(keys, EngineUse::kTrain);
    const int64_t steps = engine->plan.total_steps;
    EXPECT_EQ(engine->plan.stop_at, steps);
    EXPECT_EQ(engine->plan.horizon, steps);
    EXPECT_EQ(engine->options.run.steps, steps);
    EXPECT_EQ(engine->input.resolved.at("run.steps"), std::to_string(steps));
    EXPECT_EQ(engine->input.resolved.at("run.virtual_limit_s"), "1");
    EXPECT_EQ(engine->schedule_of(engine->options, 0).rate(steps), 0)
        << "the cosine ends in time";
    EXPECT_GT(steps, 12);
    const auto simulated = build(keys);
    EXPECT_LE(end_of(*simulated, steps), 1 + 1e-9);
    EXPECT_GT(end_of(*simulated, steps + 1), 1);
    // The number repeats, and depends on the seed, as step times do.
    EXPECT_EQ(build(keys)->plan.total_steps, steps);
  }
  std::vector<int64_t> of_seeds;
  for (const char* seed : {"1", "2", "3", "4"})
    of_seeds.push_back(
        build({std::string("--run.seed=") + seed, "--run.virtual_limit_s=5"})
            ->plan.total_steps);
  EXPECT_NE(std::ranges::min(of_seeds), std::ranges::max(of_seeds));
}

TEST_F(VirtualLimit, GoesTogetherWithTheStepsThatItBecameOnly) {
  const int64_t steps = build({})->plan.total_steps;
  const auto with = [&](int64_t given) {
    return [=, this] { build({fmt::format("--run.steps={}", given)}); };
  };
  EXPECT_EQ(build({fmt::format("--run.steps={}", steps)})->plan.total_steps,
            steps)
      << "as in the input.ini of a run";
  for (const int64_t other : {steps - 1, steps + 1})
    expect_error_has(ExitCode::kBadInput,
                     fmt::format("run.virtual_limit_s: cannot be combined with "
                                 "run.steps = {}, expected one of the two ({} "
                                 "steps",
                                 other, steps),
                     with(other));
}

TEST_F(VirtualLimit, IsTakenFromTheRunThatGoesOn) {
  const auto first = build({});
  SavedRun saved{.input = {first->input.resolved, SavedInput::Take::kAll},
                 .workers = 4,
                 .length_workers = 4,
                 .data = {},
                 .differences = {}};
  saved.input.values["run.steps"] = "9";  // no simulation says so
  EXPECT_EQ(build({}, EngineUse::kSimulate, saved)->plan.total_steps, 9);
  // Another limit, or a new run from its model, is resolved anew.
  EXPECT_GT(build({"--run.virtual_limit_s=2"}, EngineUse::kSimulate, saved)
                ->plan.total_steps,
            first->plan.total_steps);
  saved.input.take = SavedInput::Take::kModel;
  EXPECT_EQ(build({}, EngineUse::kSimulate, saved)->plan.total_steps,
            first->plan.total_steps);
}

TEST_F(VirtualLimit, RefusesWhatCannotHold) {
  const auto refuses = [&](const std::string& part,
                           const std::vector<std::string>& keys) {
    SCOPED_TRACE(part);
    expect_error_has(ExitCode::kBadInput, part, [&] { build(keys); });
  };
  refuses("run.virtual_limit_s: is 0.001 s, but one step takes 0.0",
          {"--run.virtual_limit_s=0.001"});
  refuses("more than 10000000 steps fit", {"--run.virtual_limit_s=1e12"});
  refuses("schedule.warmup: is 40 steps, longer than run.steps",
          {"--schedule.warmup=40"});
  refuses("cannot be combined with sync_switch.train_steps",
          {"--sync.scheme=sync_switch", "--sync_switch.order=10",
           "--sync_switch.train_steps=10, 100"});
  refuses("evaluations, which a simulation does not make",
          {"--sync.scheme=sync_switch", "--sync_switch.order=10",
           "--sync_switch.plateau=eval_loss"});
}

}  // namespace
}  // namespace syncopate
