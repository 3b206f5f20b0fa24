#include "train/stragglers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace syncopate {
namespace {

Options two_seconds() {
  Options options;
  options.run.seed = 5;
  options.compute.step_s = 2;
  return options;
}

TEST(Stragglers, SpeedDividesAndFactorMultiplies) {
  Options options = two_seconds();
  options.compute.speed = {1, 4, 0.5};
  options.stragglers.factor = {3, 1, 1};
  EXPECT_DOUBLE_EQ(Stragglers(options, 0, 3).virtual_s(7, 0), 6);
  EXPECT_DOUBLE_EQ(Stragglers(options, 1, 3).virtual_s(7, 0), 0.5);
  EXPECT_DOUBLE_EQ(Stragglers(options, 2, 3).virtual_s(7, 0), 4);
}

TEST(Stragglers, DelaysFallOnTheirWorkersAndSteps) {
  Options options = two_seconds();
  options.stragglers.delay_workers = {1};
  options.stragglers.delay_ms = 500;
  options.stragglers.delay_from = 10;
  options.stragglers.delay_until = 12;
  const Stragglers slow(options, 1, 2), other(options, 0, 2);
  for (const int64_t step : {9, 10, 11, 12}) {
    const bool is_delayed = step == 10 || step == 11;
    EXPECT_DOUBLE_EQ(slow.virtual_s(step, 0), is_delayed ? 2.5 : 2) << step;
    EXPECT_DOUBLE_EQ(other.virtual_s(step, 0), 2) << step;
  }
}

TEST(Stragglers, EpisodesOfComputingCountByTheClock) {
  Options options = two_seconds();
  options.stragglers.episodes = {"1:compute:x4:from=10s:until=20s",
                                 "1:link:+30ms"};
  const Stragglers slow(options, 1, 2);
  EXPECT_DOUBLE_EQ(slow.virtual_s(0, 9), 2);
  EXPECT_DOUBLE_EQ(slow.virtual_s(0, 10), 8);
  EXPECT_DOUBLE_EQ(slow.virtual_s(0, 20), 2);
}

// The moments of random delays of mean m that strike a share p of all steps.
// Pareto with exponent 2 has no variance: its quantiles are compared, of which
// the median is m / 2 / sqrt(1 - 0.5).
TEST(Stragglers, RandomDelaysHaveTheirDistribution) {
  constexpr int kSteps = 20000;
  constexpr double kMean = 0.3, kShare = 0.25;
  struct Case {
    DelayLaw law;
    double median;
  };
  for (const Case& each :
       {Case{DelayLaw::kUniform, kMean},
        Case{DelayLaw::kExponential, kMean * std::log(2.0)},
        Case{DelayLaw::kPareto, kMean / 2 / std::sqrt(0.5)}}) {
    Options options = two_seconds();
    options.stragglers.random = each.law;
    options.stragglers.random_share = kShare;
    options.stragglers.random_ms = 1e3 * kMean;
    std::vector<double> delays;
    double sum = 0;
    for (int64_t step = 0; step < kSteps; ++step) {
      const double delay_s = Stragglers(options, 3, 8).virtual_s(step, 0) - 2;
      sum += delay_s;
      if (delay_s > 0) delays.push_back(delay_s);
    }
    const auto struck = static_cast<double>(delays.size());
    EXPECT_NEAR(struck / kSteps, kShare, 0.015) << name_of(each.law);
    std::ranges::nth_element(delays, delays.begin() + std::ssize(delays) / 2);
    EXPECT_NEAR(delays[delays.size() / 2] / each.median, 1, 0.06)
        << name_of(each.law);
    if (each.law != DelayLaw::kPareto) {
      EXPECT_NEAR(sum / struck / kMean, 1, 0.05) << name_of(each.law);
    }
  }
}

TEST(Stragglers, RandomDelaysDependOnSeedWorkerAndStepOnly) {
  Options options = two_seconds();
  options.stragglers.random = DelayLaw::kExponential;
  options.stragglers.random_share = 1;
  options.stragglers.random_ms = 100;
  const Stragglers one(options, 1, 4), again(options, 1, 4),
      other(options, 2, 4);
  options.run.seed = 6;
  const Stragglers reseeded(options, 1, 4);
  EXPECT_EQ(one.virtual_s(9, 0), again.virtual_s(9, 5));
  EXPECT_NE(one.virtual_s(9, 0), one.virtual_s(10, 0));
  EXPECT_NE(one.virtual_s(9, 0), other.virtual_s(9, 0));
  EXPECT_NE(one.virtual_s(9, 0), reseeded.virtual_s(9, 0));
}

}  // namespace
}  // namespace syncopate
