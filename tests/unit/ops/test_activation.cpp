#include "ops/activation.h"

#include <bit>
#include <cmath>
#include <limits>

#include "reference/activation.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

constexpr double kLeastNormal = 0x1.0p-126;

// From large negative to large positive values, and around 0.
std::vector<double> abscissas() {
  std::vector<double> values = {0, -0.0};
  for (double x = -16; x <= 16; x += 0.0037) values.push_back(x);
  for (double x = 1e-30; x < 1; x *= 7) {
    values.push_back(x);
    values.push_back(-x);
  }
  return values;
}

TEST(Gelu, ForwardFollowsTheFormula) {
  TestContext test;
  const GuardedTensor x = flat(abscissas());
  const GuardedTensor y(DType::kF32, x.tensor().shape);
  gelu_forward(test.context, y, x);
  const auto xs = x.get(), ys = y.get();
  // The CPU's body carries the square's rounding. That of an argument of erfc
  // in fp32 counts x^2 times.
  const double carried = test_device().kind() == DeviceKind::kCpu ? 0 : 2;
  for (size_t i = 0; i < xs.size(); ++i)
    EXPECT_TRUE(
        is_within(ys[i], reference::gelu(xs[i]),
                  {kLeastNormal, (8 + carried * xs[i] * xs[i]) * kEpsilonF32}))
        << xs[i] << ": " << ys[i] << ", not " << reference::gelu(xs[i]);
}

TEST(Gelu, BackwardFollowsTheFormula) {
  TestContext test;
  const GuardedTensor x = flat(abscissas());
  const GuardedTensor dy = flat(x.tensor().elems(), 1);
  const GuardedTensor dx(DType::kF32, x.tensor().shape);
  gelu_backward(test.context, dx, dy, x);
  auto expected = x.get();
  const auto upstream = dy.get();
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] = upstream[i] * reference::gelu_derivative(expected[i]);
  // Terms below 1 cancel near x = -0.75.
  EXPECT_TRUE(all_near(dx.get(), expected, {4 * kEpsilonF32, 8 * kEpsilonF32}));
}

TEST(Gelu, ReferenceDerivativeIsThatOfTheFunction) {
  constexpr double kStep = 1e-5;
  for (const double x : random_values(100, 5)) {
    const double difference =
        reference::gelu(4 * x + kStep) - reference::gelu(4 * x - kStep);
    EXPECT_NEAR(reference::gelu_derivative(4 * x), difference / (2 * kStep),
                1e-9);
  }
}

// What a GPU's approximation of Phi(-|x|) for bf16 adds to rounding.
double bf16_tail_error() {
  return test_device().kind() == DeviceKind::kCpu ? 0 : 5e-5;
}

// In all finite numbers that bf16 has, errors in units of half the last place:
// 1 is the correctly rounded result's.
TEST(Gelu, EveryBf16) {
  std::vector<double> all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = std::bit_cast<float>(bits << 16);
    if (std::isfinite(value)) all.push_back(static_cast<double>(value));
  }
  ASSERT_EQ(all.size(), 65280u);  // the others are NaN or infinite
  TestContext test;
  const GuardedTensor x = flat(all, DType::kBf16);
  const GuardedTensor dy =
      flat(std::vector<double>(all.size(), 1), DType::kBf16);
  const GuardedTensor y(DType::kBf16, x.tensor().shape),
      dx(DType::kBf16, x.tensor().shape);
  gelu_forward(test.context, y, x);
  gelu_backward(test.context, dx, dy, x);
  double forward = 0, backward = 0;
  const auto raise = [](double& most, double value, double exact,
                        double absolute) {
    const double error = std::abs(value - exact) - absolute;
    if (!(error <= 0))
      most = std::max(most, error / (std::abs(exact) * kEpsilonBf16));
    if (std::isnan(value)) most = value;
  };
  const auto ys = y.get(), dxs = dx.get();
  for (size_t i = 0; i < all.size(); ++i) {
    raise(forward, ys[i], reference::gelu(all[i]), kLeastNormal);
    // The derivative is zero near x = -0.75, where Phi(x) is 0.23.
    raise(backward, dxs[i], reference::gelu_derivative(all[i]),
          4 * kEpsilonF32 + 0.23 * bf16_tail_error());
  }
  const double most = 1.0001 + bf16_tail_error() / kEpsilonBf16;
  EXPECT_LE(forward, most);
  EXPECT_LE(backward, most);
  EXPECT_GT(forward, 0.9);  // the measure does measure
  RecordProperty("forward", fmt::format("{:.4f}", forward));
  RecordProperty("backward", fmt::format("{:.4f}", backward));
}

// Also where rows are in several pieces and columns in several blocks.
TEST(Gelu, BackwardSumsWhatItStores) {
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const auto& [N, K] :
         {std::pair<int64_t, int64_t>{1, 1}, {7, 3}, {130, 40}, {301, 777}}) {
      TestContext test, one(1);
      const GuardedTensor x = random_tensor({N, K}, 1, dtype),
                          dy = random_tensor({N, K}, 2, dtype);
      const GuardedTensor dx(dtype, {N, K}), with_sums(dtype, {N, K});
      const GuardedTensor dbias = random_tensor({K}, 3),
                          again = random_tensor({K}, 3);
      auto expected = dbias.get();
      gelu_backward(test.context, dx, dy, x);
      gelu_backward(test.context, with_sums, dy, x, dbias);
      EXPECT_EQ(with_sums.bytes(), dx.bytes());
      const auto stored = dx.get();
      for (int64_t i = 0; i < N * K; ++i) expected[i % K] += stored[i];
      // Of partial sums of some tens.
      const double rounding = 16 * kEpsilonF32 * std::sqrt(double(N));
      EXPECT_TRUE(all_near(dbias.get(), expected, {rounding, kEpsilonF32}));
      gelu_backward(one.context, dy, dy, x, again);
      EXPECT_EQ(dy.bytes(), dx.bytes());
      EXPECT_EQ(again.bytes(), dbias.bytes());
    }
}

// Any number of elements, beginning anywhere, in place, with any threads.
TEST(Gelu, AllSizesAndAliases) {
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const int64_t n : {0, 1, 15, 17, 8191, 50001}) {
      TestContext test, one(1);
      auto values = random_values(n, 2);
      for (double& value : values) value *= 4;
      const GuardedTensor x = flat(values, dtype);
      const GuardedTensor dy = flat(n, 3, dtype);
      const GuardedTensor y(dtype, {n}), dx(dtype, {n}), again(dtype, {n});
      gelu_forward(test.context, y, x);
      gelu_backward(test.context, dx, dy, x);
      auto forward = x.get(), backward = dy.get();
      for (size_t i = 0; i < forward.size(); ++i) {
        backward[i] *= reference::gelu_derivative(forward[i]);
        forward[i] = reference::gelu(forward[i]);
      }
      const double rounding =
          dtype == DType::kBf16 ? kEpsilonBf16 * 1.001 : 40 * kEpsilonF32;
      const double tail = dtype == DType::kBf16 ? bf16_tail_error() : 0;
      EXPECT_TRUE(all_near(y.get(), forward, {kLeastNormal, rounding + tail}));
      EXPECT_TRUE(all_near(dx.get(), backward,
                           {4 * kEpsilonF32 + 0.23 * tail, rounding + tail}));

      gelu_backward(one.context, again, dy, x);
      EXPECT_EQ(again.bytes(), dx.bytes());
      gelu_backward(one.context, dy, dy, x);
      EXPECT_EQ(dy.bytes(), dx.bytes());
      const GuardedTensor upstream = flat(n, 3, dtype);
      const GuardedTensor copy = flat(values, dtype);
      gelu_backward(one.context, copy, upstream, copy);
      EXPECT_EQ(copy.bytes(), dx.bytes());
      gelu_forward(one.context, x, x);
      EXPECT_EQ(x.bytes(), y.bytes());
    }
}

TEST(Gelu, SpecialValues) {
  TestContext test;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const GuardedTensor x = flat({kInf, -kInf, std::nan(""), 1e30, -1e30, -20});
  const GuardedTensor ones = flat(std::vector<double>(6, 1));
  const GuardedTensor y(DType::kF32, {6}), dx(DType::kF32, {6});
  gelu_forward(test.context, y, x);
  gelu_backward(test.context, dx, ones, x);
  const auto ys = y.get(), dxs = dx.get();
  EXPECT_EQ(ys[0], kInf);
  EXPECT_EQ(ys[1], 0);
  EXPECT_TRUE(std::isnan(ys[2]) && std::isnan(dxs[2]));
  EXPECT_NEAR(ys[3], 1e30, 1e23);
  EXPECT_EQ(ys[4], 0);
  EXPECT_EQ(ys[5], 0);
  EXPECT_EQ(dxs[0], 1);
  EXPECT_EQ(dxs[1], 0);
  EXPECT_EQ(dxs[3], 1);
  EXPECT_EQ(dxs[4], 0);
}

TEST(Gelu, RecordedIsTheSame) {
  TestContext test;
  GuardedTensor x = flat(1000, 1);
  const GuardedTensor y(DType::kF32, {1000}), dx(DType::kF32, {1000});
  const auto step = recorded(test, [&] {
    gelu_forward(test.context, y, x);
    gelu_backward(test.context, dx, y, x);
  });
  for (const uint64_t seed : {2, 3}) {
    const GuardedTensor source = flat(1000, seed);
    x.set(source.get());
    step();
    const GuardedTensor forward(DType::kF32, {1000}),
        backward(DType::kF32, {1000});
    gelu_forward(test.context, forward, source);
    gelu_backward(test.context, backward, forward, source);
    EXPECT_EQ(y.bytes(), forward.bytes());
    EXPECT_EQ(dx.bytes(), backward.bytes());
  }
}

}  // namespace
}  // namespace syncopate
