// SGD against the recursion written out in double, schedules against their
// formulas, scaling rules against the published examples.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace syncopate {
namespace {

class Optim : public testing::Test {
 protected:
  Optim()
      : device_(make_cpu_device()),
        stream_(device_->make_stream()),
        context_(*device_, *stream_, 2) {
    table_.add("w", Shape{37}, Role::kWeight);
    table_.add("gamma", Shape{5}, Role::kBatchNorm);
    table_.add("b", Shape{11}, Role::kBias);
  }
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Context context_;
  ParameterTable table_;
};

float value_at(int64_t i, int step) {
  return std::sin(0.7f * static_cast<float>(i) + static_cast<float>(step));
}

TEST_F(Optim, SgdFollowsTheRecursion) {
  for (const bool nesterov : {false, true}) {
    for (const bool decay_batchnorm : {false, true}) {
      const OptimizerOptions options{.momentum = 0.9,
                                     .nesterov = nesterov,
                                     .weight_decay = 0.01,
                                     .decay_batchnorm = decay_batchnorm};
      const int64_t n = table_.num_elems();
      const auto optimizer = make_optimizer(context_, options, table_, 0, n);
      std::vector<float> x(n), g(n);
      std::vector<double> expected(n), m(n, 0.0);
      for (int64_t i = 0; i < n; ++i) expected[i] = x[i] = value_at(i, 99);
      for (int step = 0; step < 4; ++step) {
        for (int64_t i = 0; i < n; ++i) {
          g[i] = value_at(i, step);
          const bool is_exempt = i >= 37 && i < 42 && !decay_batchnorm;
          const double grad =
              0.5 * g[i] + (is_exempt ? 0.0 : 0.01) * expected[i];
          m[i] = 0.9 * m[i] + grad;
          expected[i] -= 0.1 * (nesterov ? grad + 0.9 * m[i] : m[i]);
        }
        optimizer->apply(context_, 0, x, g,
                         {.rate = 0.1, .momentum = 0.9, .grad_scale = 0.5});
      }
      for (int64_t i = 0; i < n; ++i)
        // Four fp32 steps of values below 4: some units of 2^-23.
        EXPECT_NEAR(x[i], expected[i], 3e-6) << i;
    }
  }
}

// Without gradients, and not down to a subnormal number that rounding keeps.
TEST_F(Optim, MomentumDecaysToZero) {
  for (const bool nesterov : {false, true}) {
    const OptimizerOptions options{.nesterov = nesterov, .weight_decay = 0};
    const int64_t n = table_.num_elems();
    const auto optimizer = make_optimizer(context_, options, table_, 0, n);
    std::vector<float> x(n), g(n);
    for (int64_t i = 0; i < n; ++i) g[i] = value_at(i, 1);
    const ApplyParams params{.rate = 0.1, .momentum = 0.9};
    optimizer->apply(context_, 0, x, g, params);
    std::ranges::fill(g, 0.0f);
    for (int step = 0; step < 2000; ++step)
      optimizer->apply(context_, 0, x, g, params);
    const std::span<const float> momentum = optimizer->state()[0];
    for (const float m : momentum) EXPECT_EQ(m, 0);
  }
}

TEST_F(Optim, SlicesEqualTheWhole) {
  const OptimizerOptions options{.decay_batchnorm = false};
  const int64_t n = table_.num_elems();
  const auto whole = make_optimizer(context_, options, table_, 0, n);
  const auto left = make_optimizer(context_, options, table_, 0, 40);
  const auto right = make_optimizer(context_, options, table_, 40, n - 40);
  std::vector<float> x(n), g(n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = value_at(i, 1);
    g[i] = value_at(i, 2);
  }
  std::vector<float> y = x;
  const ApplyParams params{.rate = 0.3, .momentum = 0.9};
  for (int step = 0; step < 3; ++step) {
    whole->apply(context_, 0, x, g, params);
    left->apply(context_, 0, std::span(y).first(40), std::span(g).first(40),
                params);
    right->apply(context_, 40, std::span(y).subspan(40),
                 std::span(g).subspan(40), params);
  }
  EXPECT_EQ(x, y);
}

TEST_F(Optim, WithoutMomentumThereIsNoState) {
  const OptimizerOptions options{.momentum = 0};
  EXPECT_EQ(make_optimizer(context_, options, table_, 0, 53)->state_elems(), 0);
  EXPECT_EQ(make_optimizer(context_, OptimizerOptions{}, table_, 0, 53)
                ->state_elems(),
            53);
}

TEST(ScaledRate, FollowsThePublishedExamples) {
  OptimizerOptions options{.lr = 0.1};
  EXPECT_EQ(scaled_rate(options, 128, 8, 3), 0.1);
  // CHOCO's README: lr .1, base 64, batch 128, ring: .1 / 64 * 128 * 3 = 0.6.
  options.lr_scale = LrScale::kLinear;
  options.lr_factor = "graph";
  options.base_batch = 64;
  EXPECT_NEAR(scaled_rate(options, 128, 8, 3), 0.6, 1e-12);
  // Sync-Switch: BSP with n workers has n times the rate.
  options = {.lr = 0.1, .lr_scale = LrScale::kLinear};
  EXPECT_NEAR(scaled_rate(options, 128, 8, 3), 0.8, 1e-12);
  options.lr_factor = "2.5";
  EXPECT_NEAR(scaled_rate(options, 128, 8, 3), 0.25, 1e-12);
  options = {.lr = 0.1, .lr_scale = LrScale::kSqrt, .base_batch = 32};
  EXPECT_NEAR(scaled_rate(options, 128, 4, 3), 0.4, 1e-12);
}

Schedule make(ScheduleOptions options) {
  return Schedule(options, 0.8, 1000, 100);  // lr, horizon, steps per epoch
}

TEST(Schedule, Constant) {
  const Schedule s = make({});
  EXPECT_EQ(s.rate(0), 0.8);
  EXPECT_EQ(s.rate(5000), 0.8);
}

TEST(Schedule, MultistepDropsAtHalfOpenIntervals) {
  const Schedule s = make({.kind = ScheduleKind::kMultistep,
                           .milestones = {{3, true}, {600, false}},
                           .gamma = 0.2});
  EXPECT_DOUBLE_EQ(s.rate(299), 0.8);
  EXPECT_DOUBLE_EQ(s.rate(300), 0.16);
  EXPECT_DOUBLE_EQ(s.rate(599), 0.16);
  EXPECT_NEAR(s.rate(600), 0.032, 1e-15);
}

// 0.07 epochs of 100 steps are 7 steps, although 0.07 * 100 is more than 7.
TEST(Schedule, MilestonesInPartsOfAnEpochAreExact) {
  for (int whole = 1; whole < 3000; ++whole) {
    const Length length{
        .value = std::stod(fmt::format("{}.{:02}", whole / 100, whole % 100)),
        .in_epochs = true};
    EXPECT_EQ(length.steps(100), whole);
  }
  const Length part{.value = 0.075, .in_epochs = true};
  EXPECT_DOUBLE_EQ(part.steps(100), 7.5);
}

TEST(Schedule, CosineEndsAtItsFinalRate) {
  const Schedule s = make({.kind = ScheduleKind::kCosine, .final_lr = 0.1});
  EXPECT_DOUBLE_EQ(s.rate(0), 0.8);
  EXPECT_NEAR(s.rate(500), 0.45, 1e-12);
  EXPECT_NEAR(s.rate(250), 0.1 + 0.7 * (1 + std::cos(std::numbers::pi / 4)) / 2,
              1e-12);
  EXPECT_NEAR(s.rate(1000), 0.1, 1e-12);
  EXPECT_NEAR(s.rate(2000), 0.1, 1e-12);
}

TEST(Schedule, Polynomial) {
  const Schedule s = make({.kind = ScheduleKind::kPolynomial, .power = 2});
  EXPECT_NEAR(s.rate(500), 0.8 * 0.25, 1e-12);
  EXPECT_EQ(s.rate(1000), 0);
}

TEST(Schedule, OneCycleClimbsAndFalls) {
  const Schedule s = make({.kind = ScheduleKind::kOneCycle,
                           .final_lr = 0.001,
                           .low_lr = 0.15,
                           .high_lr = 3,
                           .cycle = {8, true}});
  EXPECT_DOUBLE_EQ(s.rate(0), 0.15);
  EXPECT_DOUBLE_EQ(s.rate(400), 3);
  EXPECT_NEAR(s.rate(200), (0.15 + 3) / 2, 1e-12);
  EXPECT_NEAR(s.rate(800), 0.15, 1e-12);
  EXPECT_NEAR(s.rate(1000), 0.001, 1e-12);
}

TEST(Schedule, InverseTimeCountsEpochs) {
  // CHOCO's convex decay gamma / (mu (alpha + epoch)) with alpha = 4.
  const Schedule s =
      make({.kind = ScheduleKind::kInverseTime, .decay_rate = 0.25});
  EXPECT_DOUBLE_EQ(s.rate(0), 0.8);
  EXPECT_DOUBLE_EQ(s.rate(400), 0.4);
}

// CHOCO-SGD's "strict": an epoch has 100 steps, training ends at 1000.
TEST(Schedule, FieldsGoFromRateToRate) {
  ScheduleOptions options{.kind = ScheduleKind::kFields,
                          .milestones = {{2, true}, {600, false}},
                          .power = 2,
                          .decay_rate = 0.5,
                          .fields = {0.1, 0.5, 0.4, 0.4, 0.4, 0}};
  const Schedule linear = make(options);
  EXPECT_DOUBLE_EQ(linear.rate(0), 0.1);
  EXPECT_DOUBLE_EQ(linear.rate(50), 0.2);
  EXPECT_NEAR(linear.rate(199), 0.1 + 0.4 * 199 / 200, 1e-12);
  EXPECT_DOUBLE_EQ(linear.rate(200), 0.4);
  EXPECT_DOUBLE_EQ(linear.rate(599), 0.4);
  EXPECT_DOUBLE_EQ(linear.rate(800), 0.2);
  EXPECT_DOUBLE_EQ(linear.rate(1000), 0);
  EXPECT_DOUBLE_EQ(linear.rate(1200), 0);  // beyond the horizon: its end
  options.shapes = {"linear", "inverse_time", "polynomial"};
  const Schedule mixed = make(options);
  EXPECT_DOUBLE_EQ(mixed.rate(50), 0.2);
  EXPECT_DOUBLE_EQ(mixed.rate(200), 0.4 / (1 + 0.5 * 2));
  EXPECT_DOUBLE_EQ(mixed.rate(500), 0.4 / (1 + 0.5 * 5));
  EXPECT_DOUBLE_EQ(mixed.rate(600), 0.4);
  EXPECT_DOUBLE_EQ(mixed.rate(900), 0.4 * 0.25 * 0.25);
  EXPECT_DOUBLE_EQ(mixed.rate(1000), 0);
}

// Tensor2Tensor's learning_rate.py: exp(log(0.01) / W)^(W - step) times the
// rate, W = 100 by default.
TEST(Schedule, ExponentialWarmupIsTensor2Tensors) {
  const Schedule s = make({.warmup = {100, false},
                           .warmup_from = 0.008,
                           .warmup_shape = WarmupShape::kExponential});
  for (const int step : {0, 1, 37, 99})
    EXPECT_NEAR(s.rate(step),
                0.8 * std::pow(std::exp(std::log(0.01) / 100), 100 - step),
                1e-12);
  EXPECT_DOUBLE_EQ(s.rate(100), 0.8);
}

TEST(Schedule, WarmupStandsInFrontOfAny) {
  for (const ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kMultistep,
        ScheduleKind::kCosine, ScheduleKind::kPolynomial,
        ScheduleKind::kInverseTime}) {
    const Schedule s = make({.kind = kind,
                             .warmup = {1, true},
                             .warmup_from = 0.1,
                             .milestones = {{5, true}}});
    EXPECT_DOUBLE_EQ(s.rate(0), 0.1) << name_of(kind);
    EXPECT_NEAR(s.rate(50), 0.45, 1e-12) << name_of(kind);
    // Continuous where it ends, but for inverse_time, whose epochs count from
    // the start of training.
    if (kind != ScheduleKind::kInverseTime) {
      EXPECT_NEAR(s.rate(100), 0.8, 1e-12) << name_of(kind);
    }
  }
}

}  // namespace
}  // namespace syncopate
