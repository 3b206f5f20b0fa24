// Sync-Switch's rule of who is a straggler.
// SPDX-License-Identifier: Apache-2.0
#include "sync/straggler_detector.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

constexpr int kWorkers = 4;

// A step of each worker, and an assessment.
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

// The window fills at step 3; the third assessment after that acts.
TEST(StragglerDetector, NeedsAWindowAndAssessmentsInARow) {
  StragglerDetector slow = detector(3, 3);
  for (int i = 1; i <= 4; ++i) {
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
  for (int i = 0; i < 3; ++i) step(slow, {1, 4, 1, 1});
  ASSERT_TRUE(slow.is_straggler(1));
  step(slow, {1, 1, 1, 1});  // the window still holds a slow step
  step(slow, {1, 1, 1, 1});
  EXPECT_TRUE(slow.any());
  step(slow, {1, 1, 1, 1});
  EXPECT_FALSE(slow.any());
}

// Throughputs 1, 1, 1, 1/t: the last lies sqrt(3) deviations below the mean,
// whatever t > 1.
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

// Their mean may be another than each of them, by rounding.
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
  slow.assess(0);  // nothing is known of its speed
  EXPECT_TRUE(slow.is_straggler(0));
  slow.restart(Known::kForgotten);
  EXPECT_FALSE(slow.any());
}

TEST(StragglerDetector, GoesOnFromItsState) {
  StragglerDetector straight = detector(3, 3), resumed = detector(3, 3);
  for (int i = 0; i < 4; ++i) step(straight, {1, 1, 3, 1});
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
