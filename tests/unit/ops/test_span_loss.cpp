#include <cmath>

#include "loss_bench.h"
#include "reference/loss.h"
#include "support/gradient_check.h"
#include "support/token_batch.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

std::vector<double> labels_of(const std::vector<int64_t>& lengths) {
  std::vector<double> labels;
  for (size_t n = 0; n < lengths.size(); ++n) {
    labels.push_back(
        static_cast<double>(static_cast<int64_t>(n) * 7 % lengths[n]));
    labels.push_back(static_cast<double>(lengths[n] - 1));
  }
  return labels;
}

GuardedTensor matrix(DType dtype, const std::vector<double>& values) {
  return {dtype, Shape{std::ssize(values) / 2, 2}, values};
}

LossBench loss_of(const TokenBatch& batch) {
  return {[&batch](Context& context, ClassificationSums* sums, Tensor dlogits,
                   ConstTensor logits, ConstTensor labels, float scale) {
    span_cross_entropy(context, sums, dlogits, logits, labels, batch, scale);
  }};
}

const std::vector<std::vector<int64_t>> kBatches = {
    {1},
    {3, 1, 8},
    {384, 17, 255, 256, 257},
    std::vector<int64_t>(300, 5),
    {2000}};

TEST(SpanLoss, GradientAndSumFollowTheFormula) {
  for (const auto& lengths : kBatches) {
    TestContext test;
    const TokenBatch batch(lengths);
    const LossBench loss = loss_of(batch);
    const auto N = std::ssize(lengths), T = batch.tokens();
    auto values = random_values(2 * T, 1);
    for (double& value : values) value *= 10;
    const GuardedTensor logits = matrix(DType::kF32, values);
    const GuardedTensor labels = matrix(DType::kI32, labels_of(lengths));
    const GuardedTensor dlogits(DType::kF32, {T, 2});
    auto expected =
        reference::span_cross_entropy(lengths, logits.get(), labels.get());
    const auto share = 1.0f / static_cast<float>(N);
    for (double& value : expected.dlogits) value /= static_cast<double>(N);
    const auto sums = loss.run(test, dlogits, logits, labels, share);
    EXPECT_EQ(sums.samples, N);
    EXPECT_EQ(sums.correct, expected.correct);
    EXPECT_EQ(sums.correct_top5, expected.correct_top5);
    // Exponents up to 20 in fp32 are off by 20 half units.
    EXPECT_NEAR(sums.loss_sum, expected.loss_sum,
                static_cast<double>(N) * 32 * kEpsilonF32);
    EXPECT_TRUE(
        all_near(dlogits.get(), expected.dlogits,
                 {4 * kEpsilonF32 / static_cast<double>(N), 32 * kEpsilonF32}));
    loss.expect_the_same_again(sums, dlogits, logits, labels, share);
  }
}

TEST(SpanLoss, ReferenceGradientIsThatOfTheLoss) {
  const std::vector<int64_t> lengths = {4, 9};
  const auto labels = labels_of(lengths);
  auto logits = random_values(26, 1);
  const auto gradient =
      reference::span_cross_entropy(lengths, logits, labels).dlogits;
  const auto objective = [&] {
    return reference::span_cross_entropy(lengths, logits, labels).loss_sum;
  };
  expect_derivative(logits, gradient, objective, 1e-5, 1e-9);
}

// Both ends must be right; a tie goes to the first token.
TEST(SpanLoss, CountsHits) {
  TestContext test;
  const TokenBatch batch({3, 3, 3, 2});
  const GuardedTensor logits = matrix(DType::kF32, {9, 0, 1, 5, 2, 3,  //
                                                    9, 0, 1, 5, 2, 6,  //
                                                    1, 1, 1, 1, 1, 1,  //
                                                    2, 2, 2, 2});
  const auto count = [&](const std::vector<double>& labels) {
    return loss_of(batch).run(test, {}, logits, matrix(DType::kI32, labels));
  };
  EXPECT_EQ(count({0, 1, 0, 1, 0, 0, 0, 0}).correct, 3);
  EXPECT_EQ(count({0, 1, 0, 2, 0, 1, 1, 0}).correct, 2);
  EXPECT_EQ(count({0, 1, 0, 2, 0, 1, 1, 0}).correct_top5, 4);
  EXPECT_EQ(count({1, 1, 0, 2, 0, 0, 0, 0}).correct, 3);
}

TEST(SpanLoss, NanIsNoHit) {
  TestContext test;
  const TokenBatch batch({2, 4});
  for (const size_t place : {4u, 5u, 10u}) {
    std::vector<double> values(12, 1);
    values[place] = std::nan("");
    const GuardedTensor logits = matrix(DType::kF32, values);
    const GuardedTensor dlogits(DType::kF32, {6, 2});
    const auto sums = loss_of(batch).run(test, dlogits, logits,
                                         matrix(DType::kI32, {0, 0, 0, 0}));
    EXPECT_TRUE(std::isnan(sums.loss_sum));
    EXPECT_EQ(sums.correct, 1);
    EXPECT_EQ(sums.correct_top5, 1);
    // Only the gradient of that sequence and that end.
    const auto gradient = dlogits.get();
    for (size_t i = 0; i < 12; ++i)
      EXPECT_EQ(std::isnan(gradient[i]), i >= 4 && i % 2 == place % 2);
  }
}

TEST(SpanLoss, LabelOutOfItsSequenceIsRefused) {
  const TokenBatch batch({2, 4});
  const GuardedTensor logits = matrix(DType::kF32, std::vector<double>(12, 1));
  for (const std::vector<double>& labels :
       {std::vector<double>{2, 0, 0, 0}, {0, -1, 0, 0}})
    loss_of(batch).expect_label_refused(logits, matrix(DType::kI32, labels));
}

TEST(SpanLoss, RecordedIsTheSame) {
  const TokenBatch batch({30, 50});
  loss_of(batch).expect_recorded_is_the_same(
      {80, 2}, matrix(DType::kI32, {3, 5, 7, 49}));
}

}  // namespace
}  // namespace syncopate
