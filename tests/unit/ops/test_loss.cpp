#include "ops/loss.h"

#include <cmath>

#include "cpu_fixture.h"
#include "reference/reference.h"
#include "support/guarded_tensor.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

std::vector<double> labels_of(int64_t N, int64_t K) {
  std::vector<double> labels(static_cast<size_t>(N));
  for (size_t n = 0; n < labels.size(); ++n)
    labels[n] = static_cast<double>(n * 7 % static_cast<size_t>(K));
  return labels;
}

TEST(Loss, GradientAndSumFollowTheFormula) {
  for (const auto& [N, K] : {std::pair<int64_t, int64_t>{1, 2},
                             {3, 10},
                             {17, 3},
                             {128, 10},
                             {33, 1000}}) {
    Cpu cpu;
    auto values = random_values(N * K, 1);
    for (double& value : values) value *= 10;
    GuardedTensor logits(DType::kF32, {N, K}, Layout::kRowMajor, values);
    GuardedTensor labels(DType::kI32, {N}, Layout::kRowMajor, labels_of(N, K));
    GuardedTensor dlogits(DType::kF32, {N, K});
    const auto expected =
        reference::softmax_cross_entropy(N, K, logits.get(), labels.get());
    const auto share = 1.0f / static_cast<float>(N);
    const auto sums =
        softmax_cross_entropy(cpu.context, dlogits, logits, labels, share);
    EXPECT_EQ(sums.samples, N);
    // Exponents up to 20 in fp32 are off by 20 half units.
    EXPECT_NEAR(sums.loss_sum, expected.loss_sum,
                static_cast<double>(N) * 32 * kEpsilonF32);
    EXPECT_TRUE(
        all_near(dlogits.get(), expected.dlogits,
                 {4 * kEpsilonF32 / static_cast<double>(N), 32 * kEpsilonF32}));
    EXPECT_TRUE(dlogits.guards_are_intact());

    // Without a gradient, in place, and with one thread: the same.
    const auto silent =
        softmax_cross_entropy(cpu.context, Tensor(), logits, labels, share);
    EXPECT_EQ(silent.loss_sum, sums.loss_sum);
    Cpu one(1);
    const auto in_place =
        softmax_cross_entropy(one.context, logits, logits, labels, share);
    EXPECT_EQ(in_place.loss_sum, sums.loss_sum);
    EXPECT_EQ(in_place.correct, sums.correct);
    EXPECT_EQ(logits.bytes(), dlogits.bytes());
  }
}

TEST(Loss, CountsFirstAndFirstFive) {
  Cpu cpu;
  const GuardedTensor logits(DType::kF32, {4, 7}, Layout::kRowMajor,
                             {9, 1, 2, 3, 4, 5, 6,    // label 0: first
                              9, 5, 6, 7, 8, 4, 3,    // label 1: fifth
                              9, 4, 6, 7, 8, 5, 3,    // label 1: sixth
                              1, 1, 1, 1, 1, 1, 1});  // label 0: tie
  const GuardedTensor labels(DType::kI32, {4}, Layout::kRowMajor, {0, 1, 1, 0});
  auto sums = softmax_cross_entropy(cpu.context, {}, logits, labels, 1);
  EXPECT_EQ(sums.correct, 2);
  EXPECT_EQ(sums.correct_top5, 3);
  // In a tie of all, class 1 is second and class 5 is sixth.
  GuardedTensor others(DType::kI32, {4}, Layout::kRowMajor, {1, 0, 0, 5});
  sums = softmax_cross_entropy(cpu.context, {}, logits, others, 1);
  EXPECT_EQ(sums.correct, 2);
  EXPECT_EQ(sums.correct_top5, 2);
}

TEST(Loss, LargeLogitsDoNotOverflow) {
  Cpu cpu;
  const GuardedTensor logits(DType::kF32, {1, 3}, Layout::kRowMajor,
                             {1e30, -1e30, 0});
  const GuardedTensor labels(DType::kI32, {1}, Layout::kRowMajor, {0});
  const auto sums = softmax_cross_entropy(cpu.context, {}, logits, labels, 1);
  EXPECT_EQ(sums.loss_sum, 0);
  EXPECT_EQ(sums.correct, 1);
}

TEST(Loss, NanIsNoHit) {
  Cpu cpu;
  const GuardedTensor logits(DType::kF32, {1, 3}, Layout::kRowMajor,
                             {std::nan(""), 1, 2});
  const GuardedTensor labels(DType::kI32, {1}, Layout::kRowMajor, {0});
  const auto sums = softmax_cross_entropy(cpu.context, {}, logits, labels, 1);
  EXPECT_TRUE(std::isnan(sums.loss_sum));
  EXPECT_EQ(sums.correct, 0);
  EXPECT_EQ(sums.correct_top5, 0);
}

TEST(Loss, LabelOutOfRangeIsRefused) {
  Cpu cpu;
  const GuardedTensor logits(DType::kF32, {1, 3}, Layout::kRowMajor, {0, 1, 2});
  for (const double bad : {-1.0, 3.0}) {
    const GuardedTensor labels(DType::kI32, {1}, Layout::kRowMajor, {bad});
    EXPECT_THROW(softmax_cross_entropy(cpu.context, {}, logits, labels, 1),
                 Error);
  }
}

}  // namespace
}  // namespace syncopate
