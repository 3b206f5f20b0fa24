#include <cmath>

#include "loss_bench.h"
#include "reference/loss.h"
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

const LossBench kLoss{binary_cross_entropy};

TEST(BinaryLoss, GradientAndSumFollowTheFormula) {
  for (const int64_t N : {1, 3, 255, 256, 257, 4099})
    for (const double largest : {0.01, 4.0, 60.0}) {
      TestContext test;
      auto values = random_values(N, 1);
      for (double& value : values) value *= largest;
      const GuardedTensor logits(DType::kF32, {N, 1}, values);
      const GuardedTensor labels = flat(clicks(N), DType::kI32);
      const GuardedTensor dlogits(DType::kF32, {N, 1});
      auto expected =
          reference::binary_cross_entropy(logits.get(), labels.get());
      for (double& value : expected.dlogits) value *= 0.25;
      const auto sums = kLoss.run(test, dlogits, logits, labels, 0.25f);
      EXPECT_EQ(sums.samples, N);
      EXPECT_EQ(sums.correct, expected.correct);
      EXPECT_EQ(sums.correct_top5, expected.correct_top5);
      // A loss is off by some units of its own; small ones too.
      EXPECT_NEAR(sums.loss_sum, expected.loss_sum,
                  8 * kEpsilonF32 * expected.loss_sum);
      // The exponential of 60 in fp32 is off by some units.
      EXPECT_TRUE(
          all_near(dlogits.get(), expected.dlogits, {0, 16 * kEpsilonF32}));
      kLoss.expect_the_same_again(sums, dlogits, logits, labels, 0.25f);
    }
}

TEST(BinaryLoss, LargeLogitsNeitherOverflowNorVanish) {
  TestContext test;
  const GuardedTensor logits(DType::kF32, {4, 1}, {1e30, -1e30, -1e4, 30});
  const GuardedTensor labels = flat({1, 0, 1, 1}, DType::kI32);
  const GuardedTensor dlogits(DType::kF32, {4, 1});
  const auto sums = kLoss.run(test, dlogits, logits, labels);
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
  kLoss.expect_recorded_is_the_same({700, 1}, flat(clicks(700), DType::kI32));
}

TEST(BinaryLoss, NanIsNoHit) {
  TestContext test;
  for (const double label : {0.0, 1.0}) {
    const GuardedTensor logits(DType::kF32, {2, 1},
                               {std::nan(""), label == 1 ? 2.0 : -2.0});
    const GuardedTensor labels = flat({label, label}, DType::kI32);
    const GuardedTensor dlogits(DType::kF32, {2, 1});
    const auto sums = kLoss.run(test, dlogits, logits, labels);
    EXPECT_TRUE(std::isnan(sums.loss_sum));
    EXPECT_EQ(sums.correct, 1);
    EXPECT_EQ(sums.correct_top5, 1);
    EXPECT_TRUE(std::isnan(dlogits.get()[0]));
    EXPECT_FALSE(std::isnan(dlogits.get()[1]));
  }
}

TEST(BinaryLoss, OtherLabelsAreRefused) {
  for (const double bad : {-1.0, 2.0})
    kLoss.expect_label_refused(GuardedTensor(DType::kF32, {2, 1}, {1, 1}),
                               flat({1, bad}, DType::kI32));
}

}  // namespace
}  // namespace syncopate
