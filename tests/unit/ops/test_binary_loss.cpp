#include <cmath>

#include "ops/loss.h"
#include "reference/binary_loss.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

std::vector<double> clicks(int64_t N) {
  std::vector<double> labels(static_cast<size_t>(N));
  for (size_t n = 0; n < labels.size(); ++n)
    labels[n] = static_cast<double>(n * n % 7 % 3 % 2);
  return labels;
}

std::vector<double> logits_of(int64_t N, double largest, uint64_t seed) {
  auto values = random_values(N, seed);
  for (double& value : values) value *= largest;
  return values;
}

ClassificationSums run(TestContext& test,
                       Tensor dlogits,
                       ConstTensor logits,
                       ConstTensor labels,
                       float scale) {
  // What is there is not added to.
  const DeviceValues<ClassificationSums> sums(ClassificationSums{1e9, 7, 7, 7});
  binary_cross_entropy(test.context, sums, dlogits, logits, labels, scale);
  return sums.get(test.context)[0];
}

TEST(BinaryLoss, GradientAndSumFollowTheFormula) {
  for (const int64_t N : {1, 3, 255, 256, 257, 4099})
    for (const double largest : {0.01, 4.0, 60.0}) {
      TestContext test;
      GuardedTensor logits(DType::kF32, {N, 1}, Layout::kRowMajor,
                           logits_of(N, largest, 1));
      const GuardedTensor labels(DType::kI32, {N}, Layout::kRowMajor,
                                 clicks(N));
      const GuardedTensor dlogits(DType::kF32, {N, 1});
      auto expected =
          reference::binary_cross_entropy(logits.get(), labels.get());
      for (double& value : expected.dlogits) value *= 0.25;
      const auto sums = run(test, dlogits, logits, labels, 0.25f);
      EXPECT_EQ(sums.samples, N);
      EXPECT_EQ(sums.correct, expected.correct);
      EXPECT_EQ(sums.correct_top5, N);
      // A loss is off by some units of its own; small ones too.
      EXPECT_NEAR(sums.loss_sum, expected.loss_sum,
                  8 * kEpsilonF32 * expected.loss_sum);
      // The exponential of 60 in fp32 is off by some units.
      EXPECT_TRUE(
          all_near(dlogits.get(), expected.dlogits, {0, 16 * kEpsilonF32}));
      EXPECT_TRUE(dlogits.guards_are_intact());

      // Without a gradient, in place, and with one thread: the same.
      EXPECT_EQ(run(test, Tensor(), logits, labels, 1).loss_sum, sums.loss_sum);
      TestContext one(1);
      const auto in_place = run(one, logits, logits, labels, 0.25f);
      EXPECT_EQ(in_place.loss_sum, sums.loss_sum);
      EXPECT_EQ(in_place.correct, sums.correct);
      EXPECT_EQ(logits.bytes(), dlogits.bytes());
    }
}

TEST(BinaryLoss, LargeLogitsNeitherOverflowNorVanish) {
  TestContext test;
  const GuardedTensor logits(DType::kF32, {4, 1}, Layout::kRowMajor,
                             {1e30, -1e30, -1e4, 30});
  const GuardedTensor labels(DType::kI32, {4}, Layout::kRowMajor, {1, 0, 1, 1});
  const GuardedTensor dlogits(DType::kF32, {4, 1});
  const auto sums = run(test, dlogits, logits, labels, 1);
  EXPECT_NEAR(sums.loss_sum, 1e4, 1e-3);
  EXPECT_EQ(sums.correct, 3);
  const auto gradient = dlogits.get();
  EXPECT_EQ(gradient[0], 0);
  EXPECT_EQ(gradient[1], 0);
  EXPECT_EQ(gradient[2], -1);
  // 1 - p is below what fp32 resolves at 1.
  EXPECT_NEAR(gradient[3], -std::exp(-30.0), 1e-18);
}

TEST(BinaryLoss, RecordedIsTheSame) {
  TestContext test;
  const int64_t N = 700;
  GuardedTensor logits(DType::kF32, {N, 1});
  const GuardedTensor labels(DType::kI32, {N}, Layout::kRowMajor, clicks(N));
  const GuardedTensor dlogits(DType::kF32, {N, 1}),
      expected(DType::kF32, {N, 1});
  logits.set(logits_of(N, 3, 1));
  const DeviceValues<ClassificationSums> sums(ClassificationSums{});
  const auto step = recorded(test, [&] {
    binary_cross_entropy(test.context, sums, dlogits, logits, labels, 0.5f);
  });
  for (const uint64_t seed : {2, 3}) {
    logits.set(logits_of(N, 3, seed));
    step();
    EXPECT_EQ(run(test, expected, logits, labels, 0.5f).loss_sum,
              sums.get(test.context)[0].loss_sum);
    EXPECT_EQ(dlogits.bytes(), expected.bytes());
  }
}

TEST(BinaryLoss, NanIsNoHit) {
  TestContext test;
  for (const double label : {0.0, 1.0}) {
    const GuardedTensor logits(DType::kF32, {2, 1}, Layout::kRowMajor,
                               {std::nan(""), label == 1 ? 2.0 : -2.0});
    const GuardedTensor labels(DType::kI32, {2}, Layout::kRowMajor,
                               {label, label});
    const GuardedTensor dlogits(DType::kF32, {2, 1});
    const auto sums = run(test, dlogits, logits, labels, 1);
    EXPECT_TRUE(std::isnan(sums.loss_sum));
    EXPECT_EQ(sums.correct, 1);
    EXPECT_EQ(sums.correct_top5, 1);
    EXPECT_TRUE(std::isnan(dlogits.get()[0]));
    EXPECT_FALSE(std::isnan(dlogits.get()[1]));
  }
}

TEST(BinaryLoss, OtherLabelsAreRefused) {
  TestContext test;
  for (const double bad : {-1.0, 2.0}) {
    const GuardedTensor logits(DType::kF32, {2, 1}, Layout::kRowMajor, {1, 1});
    const GuardedTensor labels(DType::kI32, {2}, Layout::kRowMajor, {1, bad});
    if (test_device().kind() == DeviceKind::kCpu) {
      EXPECT_THROW(run(test, {}, logits, labels, 1), Error);
    } else {
      const auto sums = run(test, {}, logits, labels, 1);
      EXPECT_TRUE(std::isnan(sums.loss_sum));
      EXPECT_EQ(sums.correct, 1);
      EXPECT_EQ(sums.correct_top5, 1);
      EXPECT_EQ(sums.samples, 2);
    }
  }
}

}  // namespace
}  // namespace syncopate
