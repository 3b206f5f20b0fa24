// The moving average of a model's values, against the recurrence in double.
#include "optim/moving_average.h"

#include <gtest/gtest.h>

#include <vector>

namespace syncopate {
namespace {

TEST(MovingAverage, FollowsTheRecurrenceAtEveryThirdStep) {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  constexpr double kDecay = 0.9;
  MovingAverage average(context, 2, 1, kDecay, 3);
  std::vector<float> x = {1, -2}, statistic = {4};
  average.start(x, statistic);
  double expected[] = {1, -2, 4};
  for (int step = 1; step <= 12; ++step) {
    x = {static_cast<float>(step), static_cast<float>(-step * step)};
    statistic = {0.5f * static_cast<float>(step)};
    average.update(step, x, statistic);
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

}  // namespace
}  // namespace syncopate
