// The moving average of a model's values, against the recurrence in double.
#include "optim/moving_average.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace syncopate {
namespace {

TEST(MovingAverage, FollowsTheRecurrenceAtEveryThirdStep) {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  constexpr double kDecay = 0.9;
  MovingAverage average(context, 2, 1, kDecay, 3, 0);
  std::vector<float> x = {1, -2}, statistic = {4};
  average.start(x, statistic);
  double expected[] = {1, -2, 4};
  for (int step = 1; step <= 12; ++step) {
    x = {static_cast<float>(step), static_cast<float>(-step * step)};
    statistic = {0.5f * static_cast<float>(step)};
    average.update(step, step, x, statistic);
    const double now[] = {x[0], x[1], statistic[0]};
    for (int i = 0; i < 3; ++i) {
      if (step == 3) expected[i] = now[i];
      if (step > 3 && step % 3 == 0)
        expected[i] = kDecay * expected[i] + (1 - kDecay) * now[i];
    }
    const std::span<const float> parameters = average.parameters();
    EXPECT_NEAR(parameters[0], expected[0], 1e-5) << step;
    EXPECT_NEAR(parameters[1], expected[1], 1e-5) << step;
    EXPECT_NEAR(average.buffers().span()[0], expected[2], 1e-5) << step;
  }
}

// A model whose value is the square of the number of steps, in updates every
// two steps: copies of 4 and 16, where a warm-up of 3 steps covers the update
// after step 1 (counted from 0) only; later 0.75 * average + 0.25 * value.
TEST(MovingAverage, CopiesTheModelUntilTheWarmupIsOver) {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  const auto averages = [&](double warmup_steps) {
    MovingAverage average(context, 1, 0, 0.75, 2, warmup_steps);
    std::vector<float> after;
    for (int step = 1; step <= 10; ++step) {
      const float x[] = {static_cast<float>(step * step)};
      average.update(step, step, x, {});
      if (step % 2 == 0)
        after.push_back(std::span<const float>(average.parameters())[0]);
    }
    return after;
  };
  using Values = std::vector<float>;
  EXPECT_EQ(averages(0), (Values{4, 7, 14.25, 26.6875, 45.015625}));
  EXPECT_EQ(averages(1), (Values{4, 7, 14.25, 26.6875, 45.015625}));
  EXPECT_EQ(averages(1.5), (Values{4, 16, 21, 31.75, 48.8125}));
  EXPECT_EQ(averages(3), (Values{4, 16, 21, 31.75, 48.8125}));
  EXPECT_EQ(averages(4), (Values{4, 16, 36, 43, 57.25}));
  EXPECT_EQ(averages(100), (Values{4, 16, 36, 64, 100}));
}

// A worker that takes one step in three of the schedule's leaves a warm-up of
// four steps with its second step.
TEST(MovingAverage, CountsTheWarmupInStepsOfTheSchedule) {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  MovingAverage average(context, 1, 0, 0.75, 1, 4);
  std::vector<float> after;
  for (int step = 1; step <= 4; ++step) {
    const float x[] = {static_cast<float>(step * step)};
    average.update(step, 3 * step, x, {});
    after.push_back(std::span<const float>(average.parameters())[0]);
  }
  EXPECT_EQ(after, (std::vector<float>{1, 1.75, 3.5625, 6.671875}));
  // The first update is a copy, whatever the schedule says.
  MovingAverage late(context, 1, 0, 0.75, 1, 0);
  const float x[] = {5};
  late.update(1, 9, x, {});
  EXPECT_EQ(std::span<const float>(late.parameters())[0], 5);
}

// The weights of the old average and of the values add up to 1 in fp32, too.
TEST(MovingAverage, OfAConstantModelIsTheModel) {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  constexpr int64_t kValues = 4096;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> constants(kValues);
  for (float& value : constants) value = normal(random);
  // Where the distance between numbers changes.
  constants[0] = 0;
  constants[1] = -1;
  constants[2] = std::nextafter(2.0f, 0.0f);
  for (const double decay : {0.0, 0.3, 0.5, 0.9, 0.9999, 0.999999}) {
    MovingAverage average(context, kValues, kValues, decay, 1, 0);
    average.start(constants, constants);
    for (int update = 1; update <= 20'000; ++update)
      average.update(update, update, constants, constants);
    for (const std::span<const float> values :
         {average.parameters().span(), average.buffers().span()})
      EXPECT_TRUE(std::ranges::equal(values, constants)) << decay;
  }
}

// However large the average was.
TEST(MovingAverage, WithoutDecayIsTheModel) {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  MovingAverage average(context, 1, 0, 0, 1, 0);
  for (int step = 1; step <= 3; ++step) {
    const float x[] = {step == 2 ? 1e8f : 1.0f};
    average.update(step, step, x, {});
    EXPECT_EQ(average.parameters().span()[0], x[0]);
  }
}

// A run that resumes with another number of workers counts other steps, but not
// other updates. Without their number, they follow from the steps.
TEST(MovingAverage, OnlyTheFirstUpdateIsACopyWhateverTheStep) {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  const auto after = [&](int64_t updates, int64_t steps_done) {
    MovingAverage average(context, 1, 0, 0.75, 2, 0);
    const float zero[] = {0}, four[] = {4};
    average.start(zero, {});
    average.updates() = updates;
    average.update(steps_done, steps_done, four, {});
    EXPECT_EQ(average.updates(), updates < 0 ? steps_done / 2 : updates + 1);
    return std::span<const float>(average.parameters())[0];
  };
  EXPECT_EQ(after(0, 2), 4);
  EXPECT_EQ(after(0, 10), 4);
  EXPECT_EQ(after(7, 2), 1);
  EXPECT_EQ(after(7, 10), 1);
  EXPECT_EQ(after(-1, 2), 4);
  EXPECT_EQ(after(-1, 4), 1);
}

}  // namespace
}  // namespace syncopate
