#include "ops/loss.h"

#include <cmath>

#include "reference/reference.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
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

ClassificationSums run(TestContext& test,
                       Tensor dlogits,
                       ConstTensor logits,
                       ConstTensor labels,
                       float scale) {
  // What is there is not added to.
  const DeviceValues<ClassificationSums> sums(ClassificationSums{1e9, 7, 7, 7});
  softmax_cross_entropy(test.context, sums, dlogits, logits, labels, scale);
  return sums.get(test.context)[0];
}

TEST(Loss, GradientAndSumFollowTheFormula) {
  for (const auto& [N, K] : {std::pair<int64_t, int64_t>{1, 2},
                             {3, 10},
                             {17, 3},
                             {128, 10},
                             {9, 256},
                             {3, 257},
                             {33, 1000},
                             {2, 30000},
                             {300, 4},
                             {8300, 2}}) {
    TestContext test;
    auto values = random_values(N * K, 1);
    for (double& value : values) value *= 10;
    GuardedTensor logits(DType::kF32, {N, K}, Layout::kRowMajor, values);
    GuardedTensor labels(DType::kI32, {N}, Layout::kRowMajor, labels_of(N, K));
    GuardedTensor dlogits(DType::kF32, {N, K});
    const auto expected =
        reference::softmax_cross_entropy(N, K, logits.get(), labels.get());
    const auto share = 1.0f / static_cast<float>(N);
    const auto sums = run(test, dlogits, logits, labels, share);
    EXPECT_EQ(sums.samples, N);
    // Exponents up to 20 in fp32 are off by 20 half units.
    EXPECT_NEAR(sums.loss_sum, expected.loss_sum,
                static_cast<double>(N) * 32 * kEpsilonF32);
    EXPECT_TRUE(
        all_near(dlogits.get(), expected.dlogits,
                 {4 * kEpsilonF32 / static_cast<double>(N), 32 * kEpsilonF32}));
    EXPECT_TRUE(dlogits.guards_are_intact());

    // Without a gradient, in place, and with one thread: the same.
    const auto silent = run(test, Tensor(), logits, labels, share);
    EXPECT_EQ(silent.loss_sum, sums.loss_sum);
    TestContext one(1);
    const auto in_place = run(one, logits, logits, labels, share);
    EXPECT_EQ(in_place.loss_sum, sums.loss_sum);
    EXPECT_EQ(in_place.correct, sums.correct);
    EXPECT_EQ(in_place.correct_top5, sums.correct_top5);
    EXPECT_EQ(logits.bytes(), dlogits.bytes());
  }
}

TEST(Loss, RecordedIsTheSame) {
  TestContext test;
  const int64_t N = 6, K = 300;
  GuardedTensor logits(DType::kF32, {N, K});
  const GuardedTensor labels(DType::kI32, {N}, Layout::kRowMajor,
                             labels_of(N, K));
  const GuardedTensor dlogits(DType::kF32, {N, K}),
      expected(DType::kF32, {N, K});
  logits.set(random_values(N * K, 1));
  const DeviceValues<ClassificationSums> sums(ClassificationSums{});
  const auto step = recorded(test, [&] {
    softmax_cross_entropy(test.context, sums, dlogits, logits, labels, 0.5f);
  });
  for (const uint64_t seed : {2, 3}) {
    logits.set(random_values(N * K, seed));
    step();
    EXPECT_EQ(run(test, expected, logits, labels, 0.5f).loss_sum,
              sums.get(test.context)[0].loss_sum);
    EXPECT_EQ(dlogits.bytes(), expected.bytes());
  }
}

TEST(Loss, CountsFirstAndFirstFive) {
  TestContext test;
  const GuardedTensor logits(DType::kF32, {4, 7}, Layout::kRowMajor,
                             {9, 1, 2, 3, 4, 5, 6,    // label 0: first
                              9, 5, 6, 7, 8, 4, 3,    // label 1: fifth
                              9, 4, 6, 7, 8, 5, 3,    // label 1: sixth
                              1, 1, 1, 1, 1, 1, 1});  // label 0: tie
  const GuardedTensor labels(DType::kI32, {4}, Layout::kRowMajor, {0, 1, 1, 0});
  auto sums = run(test, {}, logits, labels, 1);
  EXPECT_EQ(sums.correct, 2);
  EXPECT_EQ(sums.correct_top5, 3);
  // In a tie of all, class 1 is second and class 5 is sixth.
  GuardedTensor others(DType::kI32, {4}, Layout::kRowMajor, {1, 0, 0, 5});
  sums = run(test, {}, logits, others, 1);
  EXPECT_EQ(sums.correct, 2);
  EXPECT_EQ(sums.correct_top5, 2);
}

// Against a count of the classes that come before the label, rows long and
// short; few different values, so that there are ties.
TEST(Loss, CountsFollowTheDefinition) {
  for (const auto& [N, K] :
       {std::pair<int64_t, int64_t>{600, 3}, {50, 40}, {40, 300}}) {
    TestContext test;
    auto values = random_values(N * K, 3);
    const auto levels = static_cast<double>(K) / 3;
    for (double& value : values) value = std::floor(value * levels);
    const auto label = labels_of(N, K);
    int64_t correct = 0, correct_top5 = 0;
    for (int64_t n = 0; n < N; ++n) {
      const double* row = values.data() + n * K;
      const auto chosen = static_cast<int64_t>(label[static_cast<size_t>(n)]);
      int64_t before = 0;
      for (int64_t k = 0; k < K; ++k)
        before += row[k] > row[chosen] || (row[k] == row[chosen] && k < chosen);
      correct += before == 0;
      correct_top5 += before < 5;
    }
    const GuardedTensor logits(DType::kF32, {N, K}, Layout::kRowMajor, values);
    const GuardedTensor labels(DType::kI32, {N}, Layout::kRowMajor, label);
    const auto sums = run(test, {}, logits, labels, 1);
    EXPECT_EQ(sums.correct, correct);
    EXPECT_EQ(sums.correct_top5, correct_top5);
    EXPECT_GT(correct_top5, 0);
  }
}

TEST(Loss, LargeLogitsDoNotOverflow) {
  TestContext test;
  const GuardedTensor logits(DType::kF32, {1, 3}, Layout::kRowMajor,
                             {1e30, -1e30, 0});
  const GuardedTensor labels(DType::kI32, {1}, Layout::kRowMajor, {0});
  const auto sums = run(test, {}, logits, labels, 1);
  EXPECT_EQ(sums.loss_sum, 0);
  EXPECT_EQ(sums.correct, 1);
}

TEST(Loss, NanIsNoHit) {
  TestContext test;
  for (const int64_t K : {3, 500})
    for (const int64_t place : {int64_t{0}, K - 1}) {
      std::vector<double> values(static_cast<size_t>(K), 1);
      values[static_cast<size_t>(place)] = std::nan("");
      const GuardedTensor logits(DType::kF32, {1, K}, Layout::kRowMajor,
                                 values);
      const GuardedTensor labels(DType::kI32, {1}, Layout::kRowMajor, {0});
      const GuardedTensor dlogits(DType::kF32, {1, K}, Layout::kRowMajor,
                                  std::vector<double>(values.size()));
      const auto sums = run(test, dlogits, logits, labels, 1);
      EXPECT_TRUE(std::isnan(sums.loss_sum));
      EXPECT_EQ(sums.correct, 0);
      EXPECT_EQ(sums.correct_top5, 0);
      for (const double value : dlogits.get()) EXPECT_TRUE(std::isnan(value));
    }
}

TEST(Loss, LabelOutOfRangeIsRefused) {
  TestContext test;
  for (const int64_t K : {3, 500})
    for (const double bad : {-1.0, static_cast<double>(K)}) {
      const GuardedTensor logits(DType::kF32, {2, K}, Layout::kRowMajor,
                                 std::vector<double>(2 * K, 1));
      const GuardedTensor labels(DType::kI32, {2}, Layout::kRowMajor, {0, bad});
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
