#include "ops/swish.h"

#include <cmath>
#include <limits>

#include "reference/swish.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

constexpr double kLeastNormal = 0x1.0p-126;

GuardedTensor flat(const std::vector<double>& values,
                   DType dtype = DType::kF32) {
  return {dtype, Shape{std::ssize(values)}, Layout::kRowMajor, values};
}

TEST(Swish, ReferenceDerivativeIsThatOfTheFunction) {
  constexpr double kStep = 1e-5;
  for (const double x : random_values(100, 5)) {
    const double difference =
        reference::swish(4 * x + kStep) - reference::swish(4 * x - kStep);
    EXPECT_NEAR(reference::swish_derivative(4 * x), difference / (2 * kStep),
                1e-9);
  }
}

// Any number of elements, in place, with any threads.
TEST(Swish, FollowsTheFormula) {
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const int64_t n : {0, 1, 15, 17, 8191, 50001}) {
      TestContext test, one(1);
      auto values = random_values(n, 2);
      for (double& value : values) value *= 20;
      const GuardedTensor x = flat(values, dtype);
      const GuardedTensor dy = flat(random_values(n, 3), dtype);
      const GuardedTensor y(dtype, {n}), dx(dtype, {n}), again(dtype, {n});
      swish_forward(test.context, y, x);
      swish_backward(test.context, dx, dy, x);
      auto forward = x.get(), backward = dy.get();
      for (size_t i = 0; i < forward.size(); ++i) {
        backward[i] *= reference::swish_derivative(forward[i]);
        forward[i] = reference::swish(forward[i]);
      }
      const double rounding =
          dtype == DType::kBf16 ? kEpsilonBf16 * 1.001 : 12 * kEpsilonF32;
      EXPECT_TRUE(all_near(y.get(), forward, {kLeastNormal, rounding}));
      // Terms below 1 cancel near x = -1.28.
      EXPECT_TRUE(all_near(dx.get(), backward, {4 * kEpsilonF32, rounding}));
      EXPECT_TRUE(y.guards_are_intact() && dx.guards_are_intact());
      swish_backward(one.context, again, dy, x);
      EXPECT_EQ(again.bytes(), dx.bytes());
      swish_backward(one.context, dy, dy, x);
      EXPECT_EQ(dy.bytes(), dx.bytes());
      swish_forward(one.context, x, x);
      EXPECT_EQ(x.bytes(), y.bytes());
    }
}

TEST(Swish, SpecialValues) {
  TestContext test;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const GuardedTensor x = flat({kInf, -kInf, std::nan(""), 1e30, -1e30, 0});
  const GuardedTensor ones = flat(std::vector<double>(6, 1));
  const GuardedTensor y(DType::kF32, {6}), dx(DType::kF32, {6});
  swish_forward(test.context, y, x);
  swish_backward(test.context, dx, ones, x);
  const auto ys = y.get(), dxs = dx.get();
  EXPECT_EQ(ys[0], kInf);
  EXPECT_TRUE(std::isnan(ys[2]) && std::isnan(dxs[2]));
  EXPECT_NEAR(ys[3], 1e30, 1e23);
  EXPECT_EQ(dxs[0], 1);
  EXPECT_EQ(dxs[3], 1);
  EXPECT_EQ(ys[5], 0);
  EXPECT_EQ(dxs[5], 0.5);
  for (const size_t low : {1, 4}) {
    EXPECT_NEAR(ys[low], 0, 1e-42);
    EXPECT_NEAR(dxs[low], 0, 1e-42);
  }
}

TEST(Swish, RecordedIsTheSame) {
  TestContext test;
  GuardedTensor x = flat(random_values(1000, 1));
  const GuardedTensor y(DType::kF32, {1000}), dx(DType::kF32, {1000});
  const auto step = recorded(test, [&] {
    swish_forward(test.context, y, x);
    swish_backward(test.context, dx, y, x);
  });
  for (const uint64_t seed : {2, 3}) {
    const GuardedTensor source = flat(random_values(1000, seed));
    x.set(source.get());
    step();
    const GuardedTensor forward(DType::kF32, {1000}),
        backward(DType::kF32, {1000});
    swish_forward(test.context, forward, source);
    swish_backward(test.context, backward, forward, source);
    EXPECT_EQ(y.bytes(), forward.bytes());
    EXPECT_EQ(dx.bytes(), backward.bytes());
  }
}

}  // namespace
}  // namespace syncopate
