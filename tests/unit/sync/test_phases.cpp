// Sync-Switch's arithmetic, checked with the figures of its published runs.
// SPDX-License-Identifier: Apache-2.0
#include "sync/phases.h"

#include <gtest/gtest.h>

namespace syncopate {
namespace {

std::string mistake_in(const SyncSwitchOptions& options,
                       int workers,
                       int64_t total_steps) {
  try {
    check_phases(options, workers, total_steps);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

SyncSwitchOptions phases_of(const std::string& order,
                            const std::vector<double>& fractions,
                            const std::vector<double>& train_steps = {}) {
  SyncSwitchOptions options;
  options.order = {order};
  options.fractions = fractions;
  options.train_steps = train_steps;
  return options;
}

struct Row {
  int workers;
  int64_t work;  // S, mini-batches
  double fraction;
  int64_t bsp_end, asp_end;  // --train-steps
};

// Every shipped run's --train-steps.
const std::vector<Row> kPublished = {
    {8, 64000, 0.05, 400, 61200},     {8, 64000, 0.0625, 500, 60500},
    {8, 64000, 0.1, 800, 58400},      {8, 64000, 0.25, 2000, 50000},
    {8, 64000, 0.5, 4000, 36000},     {8, 128000, 0.0625, 1000, 121000},
    {8, 128000, 0.125, 2000, 114000}, {8, 128000, 0.25, 4000, 100000},
    {8, 128000, 0.5, 8000, 72000},    {16, 64000, 0.5, 2000, 34000}};

TEST(Phases, APlateauNeedsNoLengths) {
  SyncSwitchOptions options;
  options.order = {"101"};
  EXPECT_NE(mistake_in(options, 8, 100), "");
  options.plateau = Plateau::kEvalLoss;
  EXPECT_EQ(mistake_in(options, 8, 100), "");
  EXPECT_EQ(phase_lengths(options, 8, 100), (std::vector<int64_t>{800, 0, 0}));
  options.order = {"1"};
  EXPECT_TRUE(mistake_in(options, 8, 100)
                  .starts_with("sync_switch.plateau: eval_loss with a single"));
}

TEST(Phases, TrainStepsAreThoseOfThePublishedRuns) {
  for (const Row& row : kPublished) {
    const auto bsp = static_cast<int64_t>(row.fraction * row.work);
    const std::vector<int64_t> expected = {bsp, row.work - bsp};
    const int64_t steps = row.work / row.workers;
    SyncSwitchOptions options =
        phases_of("10", {row.fraction, 1 - row.fraction});
    EXPECT_EQ(mistake_in(options, row.workers, steps), "");
    EXPECT_EQ(phase_lengths(options, row.workers, steps), expected);
    options = phases_of(
        "10", {},
        {static_cast<double>(row.bsp_end), static_cast<double>(row.asp_end)});
    EXPECT_EQ(mistake_in(options, row.workers, steps), "");
    EXPECT_EQ(phase_lengths(options, row.workers, steps), expected);
  }
}

TEST(Phases, OnePhaseIsTheRun) {
  for (const auto& [workers, work, end] :
       {std::tuple{8, 64000, 8000}, {8, 128000, 16000}, {16, 64000, 4000}}) {
    SyncSwitchOptions options;
    options.order = {"1"};
    const std::vector<int64_t> whole = {work};
    EXPECT_EQ(phase_lengths(options, workers, work / workers), whole);
    options.train_steps = {static_cast<double>(end)};
    EXPECT_EQ(mistake_in(options, workers, work / workers), "");
    EXPECT_EQ(phase_lengths(options, workers, work / workers), whole);
  }
}

// a50-b50: an asp step counts as one; greedy's logged run with four phases.
TEST(Phases, OtherOrders) {
  SyncSwitchOptions options;
  options.order = {"asp", "bsp"};
  options.train_steps = {32000, 36000};
  EXPECT_EQ(mistake_in(options, 8, 8000), "");
  EXPECT_EQ(phase_lengths(options, 8, 8000),
            (std::vector<int64_t>{32000, 32000}));
  options.order = {"1010"};
  options.train_steps = {200, 3200, 3400, 61200};
  EXPECT_EQ(mistake_in(options, 8, 8000), "");
  EXPECT_EQ(phase_lengths(options, 8, 8000),
            (std::vector<int64_t>{1600, 3000, 1600, 57800}));
  options.order = {"ds_sync", "esync", "ssp"};
  options.train_steps = {10, 20, 30};
  EXPECT_EQ(phase_lengths(options, 4, 15), (std::vector<int64_t>{40, 10, 10}));
}

// p = 100% as published: 8,000 steps of bsp, 8,000 in total, no asp. An earlier
// phase must not be empty, nor become empty by rounding.
TEST(Phases, TheLastMayHaveNoWork) {
  for (SyncSwitchOptions good :
       {phases_of("10", {1, 0}, {}), phases_of("10", {}, {8000, 8000})}) {
    EXPECT_EQ(mistake_in(good, 8, 8000), "");
    EXPECT_EQ(phase_lengths(good, 8, 8000), (std::vector<int64_t>{64000, 0}));
    good.policy = SwitchPolicy::kGreedy;
    EXPECT_EQ(mistake_in(good, 8, 8000),
              "sync_switch.policy: greedy without an asp phase after the bsp "
              "phase, expected elastic or fixed");
  }
  for (const SyncSwitchOptions& bad :
       {phases_of("101", {0.5, 0, 0.5}, {}), phases_of("10", {0, 1}, {}),
        phases_of("10", {0.99999, 0.00001}, {}),
        phases_of("10", {}, {0, 64000}),
        phases_of("111", {}, {4000, 4000, 8000})})
    EXPECT_NE(mistake_in(bad, 8, 8000), "");
}

TEST(Phases, EndOnWholeSteps) {
  // Their ends are 3.3, 6.6, 10.
  EXPECT_EQ(phase_lengths(phases_of("101", {0.33, 0.33, 0.34}), 6, 10),
            (std::vector<int64_t>{18, 24, 18}));
}

TEST(Phases, MistakesSayWhatWouldFit) {
  const auto mistake = [](const SyncSwitchOptions& options) {
    return mistake_in(options, 8, 8000);
  };
  const SyncSwitchOptions good = phases_of("10", {0.5, 0.5});
  EXPECT_EQ(mistake(good), "");
  SyncSwitchOptions bad = good;
  bad.order.clear();
  EXPECT_EQ(mistake(bad),
            "sync_switch.order: empty, expected the schemes of the phases, as "
            "bsp, asp or 10");
  bad.order = {"bps", "asp"};
  EXPECT_TRUE(mistake(bad).starts_with(
      "sync_switch.order: bps, expected 1 (bsp), 0 (asp) or of bsp, "));
  bad.order = {"sync_switch", "bsp"};
  EXPECT_NE(mistake(bad), "");
  EXPECT_EQ(mistake(phases_of("10", {1})),
            "sync_switch.fractions: 1 of them, expected 2, one per phase of "
            "sync_switch.order");
  EXPECT_EQ(mistake(phases_of("10", {})),
            "sync_switch.fractions: 0 of them, expected 2, one per phase of "
            "sync_switch.order");
  EXPECT_EQ(mistake(phases_of("10", {0.5, 0.25})),
            "sync_switch.fractions: their sum is 0.75, expected 1");
  EXPECT_EQ(mistake(phases_of("10", {0, 1})),
            "sync_switch.fractions: 0 of 8000 steps leaves a phase without a "
            "step, expected at least one per phase");
  EXPECT_EQ(mistake(phases_of("10", {1.5, -0.5})),
            "sync_switch.fractions: -0.5 of 8000 steps leaves a phase without "
            "a step, expected at least one per phase");
  EXPECT_EQ(
      mistake(phases_of("10", {0.5, 0.5}, {400, 61200})),
      "sync_switch.train_steps: given together with sync_switch.fractions, "
      "expected one of the two");
  EXPECT_EQ(mistake(phases_of("10", {}, {400})),
            "sync_switch.train_steps: 1 of them, expected 2, one per phase of "
            "sync_switch.order");
  EXPECT_EQ(mistake(phases_of("10", {}, {400, 300})),
            "sync_switch.train_steps: 300 after 400, expected whole numbers "
            "that increase");
  EXPECT_EQ(mistake(phases_of("10", {}, {0.5, 400})),
            "sync_switch.train_steps: 0.5 after 0, expected whole numbers "
            "that increase");
  EXPECT_EQ(mistake(phases_of("10", {}, {400, 64000})),
            "sync_switch.train_steps: 66800 mini-batches, expected the run's "
            "64000 = 8 workers * 8000 steps (the last one 61200 would fit)");
  EXPECT_EQ(mistake(phases_of("10", {}, {9000, 10000})),
            "sync_switch.train_steps: 73000 mini-batches, expected the run's "
            "64000 = 8 workers * 8000 steps");
  bad = good;
  bad.momentum_rule = MomentumRule::kRampLinear;
  EXPECT_EQ(mistake(bad),
            "sync_switch.momentum_ramp: 0 for sync_switch.momentum_rule = "
            "ramp_linear, expected the length of the ramp, as 2400 steps");
  for (const char* order : {"01", "1", "0", "00"}) {
    bad = phases_of(order, {});
    if (bad.order[0].size() > 1) bad.fractions = {0.5, 0.5};
    bad.momentum_rule = MomentumRule::kZero;
    EXPECT_EQ(mistake(bad),
              "sync_switch.momentum_rule: zero, but no phase that averages "
              "gradients is followed by one that does not, expected keep")
        << order;
  }
  bad = good;
  bad.order = {"ssp", "asp"};
  bad.policy = SwitchPolicy::kElastic;
  EXPECT_EQ(mistake(bad),
            "sync_switch.policy: elastic without a bsp phase, in which it "
            "acts, expected fixed");
  bad.order = {"01"};
  bad.policy = SwitchPolicy::kGreedy;
  EXPECT_EQ(mistake(bad),
            "sync_switch.policy: greedy without an asp phase after the bsp "
            "phase, expected elastic or fixed");
  bad = phases_of("10", {});
  bad.policy = SwitchPolicy::kGreedy;
  bad.plateau = Plateau::kEvalLoss;
  EXPECT_TRUE(
      mistake(bad).starts_with("sync_switch.policy: greedy takes an episode"));
}

// Published for 8 workers, 10% bsp: k/8 for 2000 mini-batches each, and
// .9/8 -> .9/4 -> .9/2 -> .9 at 7200, 13600, 20000 after the switch at 800
// bsp steps.
TEST(Phases, MomentumAsPublished) {
  const auto linear = [](double mini_batches) {
    return momentum_factor(MomentumRule::kRampLinear, 8, mini_batches / 8,
                           14000.0 / 8);
  };
  for (int k = 1; k <= 7; ++k) {
    EXPECT_DOUBLE_EQ(linear(2000 * (k - 1)), k / 8.0);
    EXPECT_DOUBLE_EQ(linear(2000 * k - 1), k / 8.0);
  }
  EXPECT_EQ(linear(14000), 1);
  const auto doubling = [](double step) {
    return momentum_factor(MomentumRule::kRampDoubling, 8, (step - 800) / 8,
                           19200.0 / 8);
  };
  EXPECT_DOUBLE_EQ(doubling(800), 0.125);
  EXPECT_DOUBLE_EQ(doubling(7199), 0.125);
  EXPECT_DOUBLE_EQ(doubling(7200), 0.25);
  EXPECT_DOUBLE_EQ(doubling(13599), 0.25);
  EXPECT_DOUBLE_EQ(doubling(13600), 0.5);
  EXPECT_DOUBLE_EQ(doubling(19999), 0.5);
  EXPECT_EQ(doubling(20000), 1);
  EXPECT_DOUBLE_EQ(momentum_factor(MomentumRule::kRampDoubling, 6, 2, 3),
                   4.0 / 6);
  EXPECT_EQ(momentum_factor(MomentumRule::kRampDoubling, 1, 0, 3), 1);
  EXPECT_EQ(momentum_factor(MomentumRule::kKeep, 8, 0, 0), 1);
  EXPECT_EQ(momentum_factor(MomentumRule::kZero, 8, 0, 0), 0);
  EXPECT_EQ(momentum_factor(MomentumRule::kZero, 1, 0, 0), 0);
  EXPECT_DOUBLE_EQ(momentum_factor(MomentumRule::kScaled, 8, 0, 0), 0.125);
}

}  // namespace
}  // namespace syncopate
