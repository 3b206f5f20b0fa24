// A small BERT from its tokens to the loss, with dropout in every place: the
// gradient of each tensor by central differences.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "gradient/bert_bench.h"

namespace syncopate {
namespace {

// Everything is smooth, so what differs is rounding of the loss in fp32.
constexpr double kTolerance = 2e-3;  // 3e-4 is seen
// Some gradients are zero by construction: those of the bias of keys (softmax
// is invariant to shifts), the head's bias and the shift before the head.
constexpr double kFloor = 0.01;

const QuestionSpec kSpec{40, 16};

ModelOptions options() {
  return {.family = "bert",
          .layers = 2,
          .hidden = 24,
          .heads = 3,
          .intermediate = 40,
          .positions = 18,
          .hidden_dropout = 0.2,
          .attention_dropout = 0.3};
}

void set_up(BertBench& bench) {
  // Weights of order one, because N(0, 0.02) would leave attention flat; gamma
  // and beta differ from 1 and 0.
  for (const ParameterEntry& entry : bench.model().parameters().entries()) {
    const auto values = bench.values(entry);
    std::vector<float> draws(values.size());
    fill_normal(draws, static_cast<uint64_t>(entry.offset) + 3);
    const bool is_matrix = entry.shape.rank() == 2;
    const double scale =
        is_matrix ? 1 / std::sqrt(double(entry.shape[1])) : 0.3;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] =
          static_cast<float>((is_matrix ? 0 : values[i]) + scale * draws[i]);
  }
}

Questions questions() {
  return Questions::made({5, 16, 1, 9}, {1, 3, 15, 15, 0, 0, 0, 0},
                         kSpec.vocabulary);
}

TEST(Bert, EveryTensor) {
  BertBench bench(options(), kSpec, questions());
  set_up(bench);
  bench.step();
  const std::vector<float> gradients = bench.gradients_;
  for (const ParameterEntry& entry : bench.model().parameters().entries()) {
    // It adds the same to all scores of a query, which softmax takes out again:
    // its gradient is 0, and a difference of losses is rounding alone.
    if (entry.name.ends_with(".key.bias")) {
      for (int64_t i = 0; i < entry.elems(); ++i)
        EXPECT_LT(std::abs(gradients[entry.offset + i]), 1e-6) << entry.name;
      continue;
    }
    EXPECT_LT(bench.error_of(entry, gradients, 1, kFloor), kTolerance)
        << entry.name;
  }
}

// A forgotten residual path would be seen.
TEST(Bert, CheckRefusesAGradientThatIsSlightlyWrong) {
  BertBench bench(options(), kSpec, questions());
  set_up(bench);
  EXPECT_GT(bench.error_of_scaled(0.9f), kTolerance);
}

}  // namespace
}  // namespace syncopate
