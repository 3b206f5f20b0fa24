// Sync-Switch's rule that identifies stragglers.
// SPDX-License-Identifier: Apache-2.0
#include "sync/straggler_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

constexpr int kWorkers = 4;

// Records a step of each worker, then assesses them.
void step(StragglerDetector& detector, const std::vector<double>& step_s) {
  for (int worker = 0; worker < kWorkers; ++worker)
    detector.observe(worker, step_s[worker]);
  for (int worker = 0; worker < kWorkers; ++worker) detector.assess(worker);
}

StragglerDetector detector(int64_t window, int64_t consecutive) {
  SyncSwitchOptions options;
  options.window = window;
  options.consecutive = consecutive;
  return {kWorkers, options};
}

// Windows of 3 steps do not overlap: the third in a row ends at step 9.
TEST(StragglerDetector, NeedsWholeWindowsInARow) {
  StragglerDetector slow = detector(3, 3);
  for (int i = 1; i <= 8; ++i) {
    step(slow, {1, 1, 3, 1});
    EXPECT_FALSE(slow.any()) << i;
  }
  step(slow, {1, 1, 3, 1});
  EXPECT_TRUE(slow.is_straggler(2));
  EXPECT_FALSE(slow.is_straggler(0) || slow.is_straggler(1) ||
               slow.is_straggler(3));
}

TEST(StragglerDetector, ForgetsWhatWasNotInARow) {
  StragglerDetector slow = detector(1, 3);
  for (int i = 0; i < 6; ++i) {
    step(slow, {1, 1, 3, 1});
    step(slow, {1, 1, 3, 1});
    EXPECT_FALSE(slow.any());
    step(slow, {1, 1, 1, 1});
  }
}

TEST(StragglerDetector, IsGoneAfterAsManyInARow) {
  StragglerDetector slow = detector(2, 2);
  for (int i = 0; i < 5; ++i) step(slow, {1, 4, 1, 1});
  ASSERT_TRUE(slow.is_straggler(1));
  step(slow, {1, 1, 1, 1});  // the window still holds a slow step
  for (int i = 0; i < 3; ++i) {
    step(slow, {1, 1, 1, 1});
    EXPECT_TRUE(slow.any()) << i;
  }
  step(slow, {1, 1, 1, 1});
  EXPECT_FALSE(slow.any());
}

// Steps of worker k take factor[k] (1 + noise * normal). The step at which the
// detector first reports a worker, and its rank; -1: none within `steps`.
struct Alarm {
  int64_t step = -1;
  std::vector<int> named;
};
Alarm first_alarm(const std::vector<double>& factor,
                  double noise,
                  uint64_t seed,
                  int64_t steps) {
  const auto workers = static_cast<int>(factor.size());
  StragglerDetector detector(workers, SyncSwitchOptions{});
  Rng rng(seed, Purpose::kTest);
  Alarm alarm;
  for (int64_t step = 1; step <= steps; ++step) {
    for (int worker = 0; worker < workers; ++worker)
      detector.observe(
          worker, factor[worker] * std::max(0.1, 1 + noise * rng.normal()));
    for (int worker = 0; worker < workers; ++worker) detector.assess(worker);
    if (!detector.any()) continue;
    alarm.step = step;
    for (int worker = 0; worker < workers; ++worker)
      if (detector.is_straggler(worker)) alarm.named.push_back(worker);
    break;
  }
  return alarm;
}

// 300 runs of 400 steps for each level of noise. At 20 % about one run in 3000
// has a false alarm.
TEST(StragglerDetector, EqualWorkersWithNoiseAreNone) {
  constexpr int kSeeds = 100;
  for (const double noise : {0.001, 0.01, 0.02, 0.05, 0.1, 0.2}) {
    int alarms = 0;
    for (const int workers : {4, 8, 16})
      for (int seed = 1; seed <= kSeeds; ++seed)
        if (first_alarm(std::vector<double>(workers, 1.0), noise, seed, 400)
                .step > 0)
          ++alarms;
    EXPECT_EQ(alarms, 0) << noise;
  }
}

TEST(StragglerDetector, FindsASlowWorkerUnderNoise) {
  constexpr int kSeeds = 100;
  for (const double noise : {0.0, 0.05, 0.2}) {
    int found = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      std::vector<double> factor(8, 1.0);
      const int slow = seed % 8;
      factor[slow] = 1.5;
      const Alarm alarm = first_alarm(factor, noise, seed, 60);
      if (alarm.step > 0 && alarm.named == std::vector<int>{slow}) ++found;
    }
    EXPECT_GE(found, 95) << noise;
  }
}

TEST(StragglerDetector, MinSlowdownIsAShareOfTheMean) {
  for (const double slow : {0.15, 0.17}) {
    SyncSwitchOptions options;
    options.window = options.consecutive = 1;
    options.min_slowdown = 0.12;
    StragglerDetector detector(kWorkers, options);
    // Throughputs 1, 1, 1, 1 - slow: the last lies 3/4 slow below the mean.
    step(detector, {1, 1, 1, 1 / (1 - slow)});
    const double below = 0.75 * slow / (1 - slow / 4);
    EXPECT_EQ(detector.any(), below > 0.12) << slow;
  }
}

// Throughputs 1, 1, 1, 1/t: the last is sqrt(3) deviations below the mean for
// every t > 1.
TEST(StragglerDetector, ThresholdCountsDeviations) {
  for (const double threshold : {1.7, 1.8}) {
    SyncSwitchOptions options;
    options.window = options.consecutive = 1;
    options.threshold = threshold;
    StragglerDetector slow(kWorkers, options);
    step(slow, {1, 1, 1, 2});
    EXPECT_EQ(slow.any(), threshold < std::sqrt(3)) << threshold;
  }
}

// Their mean may differ from each of them by rounding.
TEST(StragglerDetector, EqualSpeedsHaveNoStraggler) {
  SyncSwitchOptions options;
  options.window = 3;
  options.consecutive = 1;
  options.threshold = 0;
  for (const int workers : {3, 5, 6, 7, 9}) {
    for (int i = 1; i <= 50; ++i) {
      StragglerDetector equal(workers, options);
      for (int step = 0; step < 3; ++step)
        for (int worker = 0; worker < workers; ++worker)
          equal.observe(worker, 0.01 * i);
      for (int worker = 0; worker < workers; ++worker) equal.assess(worker);
      EXPECT_FALSE(equal.any()) << workers << " " << i;
    }
  }
}

TEST(StragglerDetector, RestartsWithOrWithoutTheKnown) {
  using Known = StragglerDetector::Known;
  StragglerDetector slow = detector(1, 1);
  step(slow, {5, 1, 1, 1});
  slow.restart(Known::kKept);
  EXPECT_TRUE(slow.is_straggler(0));
  slow.assess(0);  // its speed is unknown
  EXPECT_TRUE(slow.is_straggler(0));
  slow.restart(Known::kForgotten);
  EXPECT_FALSE(slow.any());
}

// A worker that leaves removes only its own record.
TEST(StragglerDetector, ForgetsOneWorkerAlone) {
  SyncSwitchOptions options;
  options.window = 1;
  options.consecutive = 3;
  options.threshold = 0.5;
  StragglerDetector slow(kWorkers, options);
  for (int i = 0; i < 2; ++i) step(slow, {1, 1, 4, 1});
  step(slow, {4, 1, 4, 1});
  EXPECT_TRUE(slow.is_straggler(2));
  slow.forget(2);
  EXPECT_FALSE(slow.any());
  EXPECT_EQ(slow.throughput(2), 0);
  EXPECT_EQ(slow.throughput(0), 0.25);
  for (const int64_t more : {1, 2}) {
    EXPECT_FALSE(slow.any()) << more;
    for (const int worker : {0, 1, 3}) slow.observe(worker, worker ? 1 : 4);
    for (const int worker : {0, 1, 3}) slow.assess(worker);
  }
  EXPECT_TRUE(slow.is_straggler(0));
}

TEST(StragglerDetector, GoesOnFromItsState) {
  StragglerDetector straight = detector(3, 3), resumed = detector(3, 3);
  for (int i = 0; i < 8; ++i) step(straight, {1, 1, 3, 1});
  test::StateInMemory state(test::StateInMemory::Way::kSave);
  straight.visit_state(state);
  state.turn(test::StateInMemory::Way::kLoad);
  resumed.visit_state(state);
  state.check_all_loaded();
  EXPECT_FALSE(resumed.any());
  step(resumed, {1, 1, 3, 1});
  EXPECT_TRUE(resumed.is_straggler(2));
}

}  // namespace
}  // namespace syncopate
