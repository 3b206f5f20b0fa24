#include "ops/optim_update.h"

#include <algorithm>
#include <cmath>

#include "ops/reduce.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

TEST(OptimUpdate, SgdFollowsItsFormula) {
  for (const int64_t n : {1, 15, 16, 17, 8193, 40007})
    for (const float momentum : {0.0f, 0.9f})
      for (const bool nesterov : {false, true}) {
        TestContext test;
        const SgdParams params{.rate = 0.1f,
                               .momentum = momentum,
                               .weight_decay = 5e-4f,
                               .grad_scale = 0.25f,
                               .nesterov = nesterov};
        const GuardedTensor x = flat(n, 1), m = flat(n, 2), g = flat(n, 3);
        auto xs = x.get(), ms = m.get();
        const auto gs = g.get();
        for (int step = 0; step < 2; ++step) {
          sgd_update(test.context, x, m, g, params);
          for (size_t i = 0; i < xs.size(); ++i) {
            const double gradient = 0.25 * gs[i] + double{5e-4f} * xs[i];
            double move = gradient;
            if (momentum != 0) {
              ms[i] = double{momentum} * ms[i] + gradient;
              move = nesterov ? gradient + double{momentum} * ms[i] : ms[i];
            }
            xs[i] -= double{0.1f} * move;
          }
        }
        // Two steps of a few roundings of values below 2.
        EXPECT_TRUE(all_near(x.get(), xs, {8 * kEpsilonF32, 0}));
        EXPECT_TRUE(all_near(m.get(), ms, {8 * kEpsilonF32, 0}));
      }
}

TEST(OptimUpdate, WithoutMomentumTheBufferMayBeEmpty) {
  TestContext test;
  const GuardedTensor x = flat(40, 1), g = flat(40, 2), y = flat(40, 1),
                      unused = flat(40, 3);
  const auto before = unused.bytes();
  sgd_update(test.context, x, {}, g, {0.1f, 0, 0});
  sgd_update(test.context, y, unused, g, {0.1f, 0, 0});
  EXPECT_EQ(x.bytes(), y.bytes());
  EXPECT_EQ(unused.bytes(), before);
}

// A server shard updates a slice: the bits must be those of the whole range.
TEST(OptimUpdate, SlicesAndThreadsHaveTheBitsOfTheWhole) {
  TestContext test, one(1);
  const SgdParams params{.rate = 0.1f,
                         .momentum = 0.9f,
                         .weight_decay = 5e-4f,
                         .grad_scale = 1.0f / 3,
                         .nesterov = true};
  const int64_t n = 30011;
  const GuardedTensor x = flat(n, 1), m = flat(n, 2), g = flat(n, 3);
  const GuardedTensor x_sliced = flat(n, 1), m_sliced = flat(n, 2);
  sgd_update(test.context, x, m, g, params);
  for (const auto& [begin, count] :
       {std::pair<size_t, size_t>{0, 1}, {1, 9999}, {10000, 20011}})
    sgd_update(one.context, x_sliced.span().subspan(begin, count),
               m_sliced.span().subspan(begin, count),
               g.span().subspan(begin, count), params);
  EXPECT_EQ(x_sliced.bytes(), x.bytes());
  EXPECT_EQ(m_sliced.bytes(), m.bytes());
}

// A received gradient may begin elsewhere than the slice that it is for.
TEST(OptimUpdate, RangesNeedNotBeAlignedAlike) {
  TestContext test;
  const int64_t n = 1000;
  const auto values = random_values(n, 3);
  for (const float momentum : {0.0f, 0.9f}) {
    const SgdParams params{
        .rate = 0.1f, .momentum = momentum, .weight_decay = 5e-4f};
    const GuardedTensor x = flat(n, 1), m = flat(n, 2), g = flat(n, 3);
    sgd_update(test.context, x, m, g, params);
    for (const size_t shift : {1, 2, 3}) {
      std::vector<double> shifted(shift, 0.0);
      shifted.insert(shifted.end(), values.begin(), values.end());
      const GuardedTensor y = flat(n, 1), v = flat(n, 2);
      const GuardedTensor elsewhere(DType::kF32, {std::ssize(shifted)},
                                    shifted);
      sgd_update(test.context, y, v, elsewhere.span().subspan(shift), params);
      EXPECT_EQ(y.bytes(), x.bytes());
      EXPECT_EQ(v.bytes(), m.bytes());
    }
  }
}

TEST(OptimUpdate, ClipFactorScalesTheGradient) {
  TestContext test;
  const DeviceValues<float> half(0.5f);
  const GuardedTensor x = flat(77, 1), m = flat(77, 2), g = flat(77, 3);
  const GuardedTensor y = flat(77, 1), v = flat(77, 2);
  SgdParams params{.rate = 0.1f,
                   .momentum = 0.9f,
                   .weight_decay = 5e-4f,
                   .grad_scale = 0.25f};
  sgd_update(test.context, x, m, g, params);
  params.grad_scale = 0.5f;  // times a half is the same number
  params.clip_factor = half;
  sgd_update(test.context, y, v, g, params);
  EXPECT_EQ(y.bytes(), x.bytes());
  EXPECT_EQ(v.bytes(), m.bytes());
}

// With momentum, without, and Nesterov's.
std::vector<SgdParams> all_kinds() {
  const SgdParams momentum{.rate = 0.1f,
                           .momentum = 0.9f,
                           .weight_decay = 5e-4f,
                           .grad_scale = 0.25f};
  SgdParams none = momentum, nesterov = momentum;
  none.momentum = 0;
  nesterov.nesterov = true;
  return {momentum, none, nesterov};
}

// What the rate multiplies, and the same momentum to the bit.
TEST(OptimUpdate, DirectionIsTheStepBeforeItsRate) {
  for (const int64_t n : {1, 15, 16, 17, 8193, 40007})
    for (const SgdParams& params : all_kinds()) {
      TestContext test;
      const GuardedTensor x = flat(n, 1), m = flat(n, 2), g = flat(n, 3);
      const GuardedTensor moved = flat(n, 1), v = flat(n, 2);
      const GuardedTensor direction(DType::kF32, Shape{n});
      sgd_update(test.context, moved, v, g, params);
      sgd_direction(test.context, direction, x, m, g, params);
      EXPECT_EQ(m.bytes(), v.bytes());
      EXPECT_EQ(x.bytes(), flat(n, 1).bytes());
      EXPECT_EQ(g.bytes(), flat(n, 3).bytes());
      auto expected = x.get();
      const auto directions = direction.get();
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] -= double{params.rate} * directions[i];
      // One rounding of values below 2.
      EXPECT_TRUE(all_near(moved.get(), expected, {2.01 * kEpsilonF32, 0}));
    }
}

TEST(OptimUpdate, DirectionMayTakeTheGradientsPlace) {
  for (const SgdParams& params : all_kinds()) {
    TestContext test, one(1);
    const int64_t n = 30011;
    const GuardedTensor x = flat(n, 1), m = flat(n, 2), g = flat(n, 3);
    const GuardedTensor in_place = flat(n, 3), v = flat(n, 2);
    const GuardedTensor direction(DType::kF32, Shape{n});
    sgd_direction(test.context, direction, x, m, g, params);
    for (const auto& [begin, count] :
         {std::pair<size_t, size_t>{0, 1}, {1, 9999}, {10000, 20011}})
      sgd_direction(one.context, in_place.span().subspan(begin, count),
                    x.span().subspan(begin, count),
                    v.span().subspan(begin, count),
                    in_place.span().subspan(begin, count), params);
    EXPECT_EQ(in_place.bytes(), direction.bytes());
    EXPECT_EQ(v.bytes(), m.bytes());
  }
}

TEST(OptimUpdate, DirectionWithoutMomentumIsTheScaledGradient) {
  TestContext test;
  const DeviceValues<float> half(0.5f);
  const GuardedTensor x = flat(77, 1), g = flat(77, 2), direction = flat(77, 3);
  sgd_direction(test.context, direction, x, {}, g,
                {.rate = 9,
                 .momentum = 0,
                 .weight_decay = 0.25f,
                 .grad_scale = 0.5f,
                 .clip_factor = half});
  auto expected = g.get();
  const auto xs = x.get();
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] = 0.25 * expected[i] + 0.25 * xs[i];
  EXPECT_TRUE(all_near(direction.get(), expected, {kEpsilonF32, 0}));
}

// A step: the norm of this step's gradient, then the update.
TEST(OptimUpdate, RecordedClippingFollowsTheGradient) {
  TestContext test;
  const int64_t n = 20001;
  const DeviceValues<float> factor(0.0f);
  GuardedTensor x = flat(n, 1), g = flat(n, 2);
  const GuardedTensor y = flat(n, 1);
  const SgdParams params{
      .rate = 1, .momentum = 0, .weight_decay = 0, .clip_factor = factor};
  const auto step = recorded(test, [&] {
    clip_factor(test.context, factor, g, 1, 0.5);
    sgd_update(test.context, x, {}, g, params);
  });
  for (const double size : {3.0, 1e-4}) {
    x.set(y.get());
    auto gradient = random_values(n, 4);
    for (double& value : gradient) value *= size;
    g.set(gradient);
    step();
    double squares = 0;
    for (const double value : g.get()) squares += value * value;
    const double expected = std::min(1.0, 0.5 / (std::sqrt(squares) + 1e-6));
    auto xs = y.get();
    const auto gs = g.get();
    for (size_t i = 0; i < xs.size(); ++i) xs[i] -= expected * gs[i];
    // Two roundings of values below 2; the factor's own is relative to steps
    // far smaller.
    EXPECT_TRUE(all_near(x.get(), xs, {4 * kEpsilonF32, 0}));
  }
}

}  // namespace
}  // namespace syncopate
