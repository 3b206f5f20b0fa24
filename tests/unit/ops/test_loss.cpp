#include <cmath>
#include <fstream>
#include <sstream>

#include "loss_bench.h"
#include "reference/loss.h"
#include "support/fixtures.h"
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

LossBench smoothed_loss(float smoothing) {
  return {[smoothing](Context& context, ClassificationSums* sums,
                      Tensor dlogits, ConstTensor logits, ConstTensor labels,
                      float scale) {
    softmax_cross_entropy(context, sums, dlogits, logits, labels, scale,
                          smoothing);
  }};
}
const LossBench kLoss = smoothed_loss(0);

class Smoothing : public testing::TestWithParam<float> {};
INSTANTIATE_TEST_SUITE_P(Loss, Smoothing, testing::Values(0, 0.1F, 0.75F));

TEST_P(Smoothing, GradientAndSumFollowTheFormula) {
  const LossBench loss = smoothed_loss(GetParam());
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
    GuardedTensor logits(DType::kF32, {N, K}, values);
    GuardedTensor labels = flat(labels_of(N, K), DType::kI32);
    GuardedTensor dlogits(DType::kF32, {N, K});
    auto expected = reference::softmax_cross_entropy(N, K, logits.get(),
                                                     labels.get(), GetParam());
    for (double& value : expected.dlogits) value /= static_cast<double>(N);
    const auto share = 1.0f / static_cast<float>(N);
    const auto sums = loss.run(test, dlogits, logits, labels, share);
    EXPECT_EQ(sums.samples, N);
    // Exponents up to 20 in fp32 are off by 20 half units.
    EXPECT_NEAR(sums.loss_sum, expected.loss_sum,
                static_cast<double>(N) * 32 * kEpsilonF32);
    EXPECT_TRUE(
        all_near(dlogits.get(), expected.dlogits,
                 {4 * kEpsilonF32 / static_cast<double>(N), 32 * kEpsilonF32}));
    loss.expect_the_same_again(sums, dlogits, logits, labels, share);
  }
}

// Against values recorded from PyTorch (tests/reference/make_loss_fixtures.py).
TEST(Loss, SmoothingIsThatOfPyTorch) {
  std::ifstream file(fixture_path("loss.txt"));
  int lines = 0;
  for (std::string text; std::getline(file, text); ++lines) {
    std::istringstream words(text);
    int64_t N = 0, K = 0;
    float smoothing = 0;
    double mean = 0;
    words >> N >> K >> smoothing >> mean;
    std::vector<double> expected(static_cast<size_t>(N * K));
    for (double& value : expected) words >> value;
    ASSERT_TRUE(words) << text;
    std::vector<double> logits, labels;
    for (int64_t i = 0; i < N * K; ++i)
      logits.push_back(16 * made_uniform(0, i));
    for (int64_t n = 0; n < N; ++n)
      labels.push_back(static_cast<double>(made_bits(1, n) % K));

    TestContext test;
    const GuardedTensor dlogits(DType::kF32, {N, K});
    const auto sums = smoothed_loss(smoothing).run(
        test, dlogits, GuardedTensor(DType::kF32, {N, K}, logits),
        flat(labels, DType::kI32), 1.0f / static_cast<float>(N));
    // The tolerances of GradientAndSumFollowTheFormula.
    EXPECT_NEAR(sums.loss_sum / static_cast<double>(N), mean, 32 * kEpsilonF32);
    EXPECT_TRUE(
        all_near(dlogits.get(), expected,
                 {4 * kEpsilonF32 / static_cast<double>(N), 32 * kEpsilonF32}));
  }
  EXPECT_EQ(lines, 12);
}

TEST(Loss, RecordedIsTheSame) {
  kLoss.expect_recorded_is_the_same({6, 300},
                                    flat(labels_of(6, 300), DType::kI32));
}

TEST(Loss, CountsFirstAndFirstFive) {
  TestContext test;
  const GuardedTensor logits(DType::kF32, {4, 7},
                             {9, 1, 2, 3, 4, 5, 6,    // label 0: first
                              9, 5, 6, 7, 8, 4, 3,    // label 1: fifth
                              9, 4, 6, 7, 8, 5, 3,    // label 1: sixth
                              1, 1, 1, 1, 1, 1, 1});  // label 0: tie
  const GuardedTensor labels = flat({0, 1, 1, 0}, DType::kI32);
  auto sums = kLoss.run(test, {}, logits, labels);
  EXPECT_EQ(sums.correct, 2);
  EXPECT_EQ(sums.correct_top5, 3);
  // In a tie of all, class 1 is second and class 5 is sixth.
  GuardedTensor others = flat({1, 0, 0, 5}, DType::kI32);
  sums = kLoss.run(test, {}, logits, others);
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
    const GuardedTensor logits(DType::kF32, {N, K}, values);
    const GuardedTensor labels = flat(label, DType::kI32);
    const auto sums = kLoss.run(test, {}, logits, labels);
    EXPECT_EQ(sums.correct, correct);
    EXPECT_EQ(sums.correct_top5, correct_top5);
    EXPECT_GT(correct_top5, 0);
  }
}

TEST(Loss, LargeLogitsDoNotOverflow) {
  TestContext test;
  const GuardedTensor logits(DType::kF32, {1, 3}, {1e30, -1e30, 0});
  const GuardedTensor labels = flat({0}, DType::kI32);
  const auto sums = kLoss.run(test, {}, logits, labels);
  EXPECT_EQ(sums.loss_sum, 0);
  EXPECT_EQ(sums.correct, 1);
}

TEST(Loss, NanIsNoHit) {
  TestContext test;
  for (const int64_t K : {3, 500})
    for (const int64_t place : {int64_t{0}, K - 1}) {
      std::vector<double> values(static_cast<size_t>(K), 1);
      values[static_cast<size_t>(place)] = std::nan("");
      const GuardedTensor logits(DType::kF32, {1, K}, values);
      const GuardedTensor labels = flat({0}, DType::kI32);
      const GuardedTensor dlogits(DType::kF32, {1, K},
                                  std::vector<double>(values.size()));
      const auto sums = kLoss.run(test, dlogits, logits, labels);
      EXPECT_TRUE(std::isnan(sums.loss_sum));
      EXPECT_EQ(sums.correct, 0);
      EXPECT_EQ(sums.correct_top5, 0);
      for (const double value : dlogits.get()) EXPECT_TRUE(std::isnan(value));
    }
}

TEST(Loss, LabelOutOfRangeIsRefused) {
  for (const int64_t K : {3, 500})
    for (const double bad : {-1.0, static_cast<double>(K)})
      kLoss.expect_label_refused(
          GuardedTensor(DType::kF32, {2, K}, std::vector<double>(2 * K, 1)),
          flat({0, bad}, DType::kI32));
}

}  // namespace
}  // namespace syncopate
