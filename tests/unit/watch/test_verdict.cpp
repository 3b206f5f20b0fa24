#include <gtest/gtest.h>

#include "watch/verdict.h"

namespace syncopate {
namespace {

constexpr double kLimitS = 30;

State working(int64_t step, double idle_s) {
  State state;
  state.stage = Stage::kStep;
  state.step = step;
  state.idle_s = idle_s;
  state.still_s = idle_s;
  state.limit_s = kLimitS;
  return state;
}

State waiting(int64_t step, double still_s) {
  State state = working(step, still_s);
  state.is_waiting = true;
  return state;
}

using States = std::vector<std::optional<State>>;

int judged(const States& states) {
  const std::optional<Hang> hang = judge_hang(states, kLimitS);
  return hang ? hang->rank : -1;
}

TEST(Verdict, WhoWorksLongerThanItsLimitHangs) {
  EXPECT_EQ(judged({waiting(5, 40), working(5, 31), waiting(5, 40)}), 1);
  EXPECT_EQ(judged({waiting(5, 40), working(5, 29), waiting(5, 40)}), -1);
}

TEST(Verdict, OfSeveralTheFurthestBehindIsNamed) {
  // During a GPU's collective all ranks seem to work; the one that lags is
  // named.
  EXPECT_EQ(judged({working(6, 40), working(5, 38), working(6, 41)}), 1);
  EXPECT_EQ(judged({working(5, 40), working(5, 44), working(5, 41)}), 1);
}

TEST(Verdict, AllWaitingIsAHangOnlyWhenNothingMoves) {
  const States still = {waiting(7, 31), waiting(6, 32), waiting(7, 33)};
  EXPECT_EQ(judged(still), 1);
  EXPECT_TRUE(judge_hang(still, kLimitS)->do_all_wait);
  EXPECT_EQ(judged({waiting(7, 31), waiting(6, 32), waiting(7, 3)}), -1);
}

TEST(Verdict, AParkedWorkerIsNoHangWhileAnotherGetsOn) {
  EXPECT_EQ(judged({working(90, 0.2), waiting(3, 400)}), -1);
}

TEST(Verdict, WithoutEveryAnswerNobodyIsJudged) {
  EXPECT_EQ(judged({working(5, 99), std::nullopt}), -1);
}

TEST(Verdict, Limits) {
  WatchLimits limits{.judges_hangs = true, .io_timeout_s = 600};
  EXPECT_EQ(limit_s(limits, Stage::kStep, 0), 600);  // no median yet
  EXPECT_EQ(limit_s(limits, Stage::kStep, 0.1), 30);
  EXPECT_EQ(limit_s(limits, Stage::kCollective, 20), 200);
  EXPECT_EQ(limit_s(limits, Stage::kCheckpoint, 0.1), 600);
  limits.step_timeout_s = 4;
  EXPECT_EQ(limit_s(limits, Stage::kStep, 20), 4);
  limits.judges_hangs = false;
  EXPECT_GT(limit_s(limits, Stage::kStep, 1), 1e30);
}

TEST(Verdict, TheMedianLeavesASlowStepOut) {
  Activity activity;
  for (int step = 0; step < 5; ++step) activity.enter(Stage::kStep, step);
  EXPECT_EQ(activity.median_step_s(), 0);  // four have ended
  activity.enter(Stage::kBoundary, 5);
  EXPECT_GT(activity.median_step_s(), 0);
  EXPECT_LT(activity.median_step_s(), 1);
}

}  // namespace
}  // namespace syncopate
