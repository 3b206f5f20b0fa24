// BERT beyond its recorded values: published sizes, the contract of Model,
// packed sequences, recomputation, weights from files, refusals.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "gradient/bert_bench.h"
#include "network_contract.h"
#include "ops/conv.h"
#include "support/expect_error.h"

namespace syncopate {
namespace {

const QuestionSpec kSpec{50, 24};

ModelOptions small(double dropout = 0.2) {
  return {.family = "bert",
          .layers = 2,
          .hidden = 32,
          .heads = 4,
          .positions = 24,
          .hidden_dropout = dropout,
          .attention_dropout = dropout};
}

Questions questions() {
  return Questions::made({11, 24, 1, 17, 6}, {2, 4, 20, 23, 0, 0, 0, 0, 5, 5},
                         kSpec.vocabulary);
}

// Counted by hand: 12 H^2 per token and layer, 2 L^2 H per layer, the head.
TEST(Bert, MultiplyAdds) {
  const Bert large(
      {.family = "bert", .layers = 24, .hidden = 1024, .heads = 16},
      {30522, 384}, DType::kF32);
  EXPECT_EQ(large.forward_macs(),
            24.0 * (384.0 * 12 * 1024 * 1024 + 2.0 * 384 * 384 * 1024) +
                384.0 * 2 * 1024);
}

TEST(Bert, NamesRolesAndOrder) {
  const Bert bert(small(), kSpec, DType::kF32);
  const auto& entries = bert.parameters().entries();
  EXPECT_EQ(entries[0].name, "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(entries[0].shape, Shape({50, 32}));
  EXPECT_EQ(entries[0].role, Role::kEmbedding);
  EXPECT_EQ(entries[3].role, Role::kLayerNorm);
  const std::string layer = "bert.encoder.layer.0.";
  const char* names[] = {"attention.self.query.weight",
                         "attention.self.key.weight",
                         "attention.self.value.weight",
                         "attention.self.query.bias",
                         "attention.self.key.bias",
                         "attention.self.value.bias",
                         "attention.output.dense.weight",
                         "attention.output.dense.bias",
                         "attention.output.LayerNorm.weight",
                         "attention.output.LayerNorm.bias",
                         "intermediate.dense.weight",
                         "intermediate.dense.bias",
                         "output.dense.weight",
                         "output.dense.bias",
                         "output.LayerNorm.weight",
                         "output.LayerNorm.bias"};
  for (size_t i = 0; i < std::size(names); ++i)
    EXPECT_EQ(entries[5 + i].name, layer + names[i]);
  EXPECT_EQ(entries[entries.size() - 2].name, "qa_outputs.weight");
  EXPECT_EQ(entries.back().name, "qa_outputs.bias");
}

TEST(Bert, FirstValues) {
  const Bert bert(small(), kSpec, DType::kF32);
  const auto draw = [&](uint64_t seed) {
    std::vector<float> values(bert.parameters().num_elems(), 9.f);
    bert.initialise(values, {}, seed);
    return values;
  };
  const std::vector<float> values = draw(1);
  EXPECT_EQ(values, draw(1));
  EXPECT_NE(values, draw(2));
  for (const ParameterEntry& entry : bert.parameters().entries()) {
    const auto tensor = std::span(values).subspan(entry.offset, entry.elems());
    if (entry.shape.rank() == 1) {
      const float want = entry.name.ends_with("LayerNorm.weight") ? 1.f : 0.f;
      EXPECT_EQ(std::ranges::count(tensor, want), entry.elems()) << entry.name;
      continue;
    }
    double square = 0;
    for (const float value : tensor) square += double{value} * value;
    // Five standard errors of a deviation from n draws.
    EXPECT_NEAR(std::sqrt(square / double(entry.elems())), 0.02,
                0.02 * 5 / std::sqrt(2 * double(entry.elems())))
        << entry.name;
  }
  EXPECT_NE(bert.describe_start().find("random"), std::string::npos);
}

TEST(Bert, KeepsTheContract) {
  BertBench bench(small(), kSpec, questions());
  // Head, two layers, embeddings.
  EXPECT_EQ(expect_final_gradients_heard(bench), 4);
  expect_the_same_bits_again(bench);
}

TEST(Bert, SamplesChooseTheMasks) {
  BertBench bench(small(), kSpec, questions());
  EXPECT_NE(bench.accumulate(bench.batch(), {}, 1), bench.step());
  EXPECT_EQ(bench.scores(bench.batch()), bench.scores(bench.batch()));
}

// A sequence has the same loss, scores and gradient in a batch as alone, also
// with dropout.
TEST(Bert, SequencesDoNotSeeEachOther) {
  BertBench bench(small(), kSpec, questions());
  const double loss = bench.step();
  const std::vector<float> gradients = bench.gradients_;
  const std::vector<float> scores = bench.scores(bench.batch());
  std::ranges::fill(bench.gradients_, 0.f);
  double parts = 0;
  std::vector<float> parts_of_scores;
  const auto add_part = [&](int64_t first, int64_t samples) {
    const DeviceQuestions part(bench.on(),
                               bench.questions().part(first, samples));
    parts += bench.accumulate(part.batch(), {}, static_cast<uint64_t>(first));
    for (const float score : bench.scores(part.batch()))
      parts_of_scores.push_back(score);
  };
  for (const auto& [first, samples] :
       {std::pair<int64_t, int64_t>{0, 1}, {1, 2}, {3, 1}, {4, 1}})
    add_part(first, samples);
  // Sums of fp32 in another order.
  EXPECT_NEAR(parts, loss, 1e-6 * loss);
  EXPECT_LT(distance(bench.gradients_, gradients), 2e-6);
  EXPECT_LT(distance(parts_of_scores, scores), 2e-6);
}

// Two token ids swapped in one sequence change that sequence's scores alone.
TEST(Bert, OtherSequencesAreOfNoInfluence) {
  BertBench bench(small(0), kSpec, questions());
  const std::vector<float> before = bench.scores(bench.batch());
  Questions changed = questions();
  std::swap(changed.tokens[12], changed.tokens[14]);  // of the second
  const DeviceQuestions batch(bench.on(), changed);
  const std::vector<float> after = bench.scores(batch.batch());
  for (int64_t t = 0; t < std::ssize(changed.tokens); ++t) {
    const bool is_second = t >= 11 && t < 35;
    EXPECT_EQ(before[2 * t] == after[2 * t], !is_second) << t;
  }
}

TEST(Bert, EvaluationSumsWhatPredictionScores) {
  BertBench bench(small(), kSpec, questions());
  for (float& value : bench.parameters_) value *= 5;  // scores with a spread
  const MetricSums sums = bench.evaluate();
  ASSERT_EQ(sums.values.size(), 2u);
  ASSERT_EQ(bench.model().metrics().size(), 2u);
  const std::vector<float> scores = bench.scores(bench.batch());
  const Questions& all = bench.questions();
  double loss = 0, right = 0;
  for (int64_t n = 0; n < all.samples(); ++n) {
    bool is_right = true;
    for (int64_t column = 0; column < 2; ++column) {
      const float* column_scores =
          scores.data() + 2 * all.tokens_before(n) + column;
      const float score = column_scores[2 * all.labels[2 * n + column]];
      double sum = 0;
      for (int64_t t = 0; t < all.lengths[n]; ++t) {
        sum += std::exp(double{column_scores[2 * t]} - score);
        is_right = is_right && column_scores[2 * t] <= score;
      }
      loss += std::log(sum) / 2;
    }
    right += is_right ? 1 : 0;
  }
  EXPECT_NEAR(sums.values[0], loss, 1e-5 * loss);  // fp32 exponentials
  EXPECT_EQ(sums.values[1], right);
  EXPECT_EQ(sums.samples, all.samples());
}

TEST(Bert, RecomputationGivesTheSameBitsInLessMemory) {
  ModelOptions options = small();
  options.layers = 6;
  BertBench kept(options, kSpec, questions());
  options.recompute = true;
  BertBench repeated(options, kSpec, questions());
  EXPECT_EQ(repeated.step(), kept.step());
  EXPECT_EQ(repeated.gradients_, kept.gradients_);
  EXPECT_LT(repeated.model().activation_bytes(),
            0.5 * double(kept.model().activation_bytes()));
}

// The 12 H values per token and layer that backward reads, and the temporary
// values of the last layer.
TEST(Bert, PeakIsWhatBackwardReads) {
  auto device = make_cpu_device();
  auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  const QuestionSpec spec{100, 128};
  Bert bert({.family = "bert",
             .layers = 12,
             .hidden = 64,
             .heads = 4,
             .positions = 128},
            spec, DType::kF32);
  bert.plan(context, 4, 1);
  EXPECT_LT(bert.activation_bytes(), 1.15 * 12 * 12 * 64 * 4 * 128 * 4);
}

TEST(Bert, Bf16IsCloseToFp32) {
  if (!cpu_features().has_bf16)
    GTEST_SKIP() << "this processor has no bf16 instructions";
  BertBench fp32(small(), kSpec, questions());
  BertBench bf16(small(), kSpec, questions(), DType::kBf16);
  const double loss = fp32.step();
  EXPECT_NEAR(bf16.step(), loss, 1e-3 * loss);
  EXPECT_LT(distance(bf16.gradients_, fp32.gradients_),
            0.02);  // 0.006 seen
  EXPECT_LT(bf16.model().activation_bytes(),
            0.65 * double(fp32.model().activation_bytes()));
}

TEST(Bert, AGpuRefusesWideHeads) {
  ModelOptions options = small();
  options.hidden = 129;
  options.heads = 1;
  test::TestContext on(1);
  Bert bert(options, kSpec, DType::kF32);
  if (on.device.kind() == DeviceKind::kCpu) {
    bert.plan(on.context, 1, 1);
    return;
  }
  expect_error(ExitCode::kBadInput,
               "model.heads: makes heads of 129 columns of model.hidden; on a "
               "GPU expected at most 128",
               [&] { bert.plan(on.context, 1, 1); });
}

}  // namespace
}  // namespace syncopate
