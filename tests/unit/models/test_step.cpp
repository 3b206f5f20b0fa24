// The contract of Model: listener, batches smaller than planned, accumulation,
// statistics, equal bits, bf16.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <ostream>

#include <gtest/gtest.h>

#include "gradient/model_bench.h"
#include "network_contract.h"
#include "ops/library.h"

namespace syncopate {
namespace {

const ImageSpec kSpec{3, 12, 11, 7};
constexpr int64_t kBatch = 6;

struct Form {
  std::string name;
  ModelOptions options;
  friend void PrintTo(const Form& form, std::ostream* out) {
    *out << form.name;
  }
};
const Form kForms[] = {
    {"Logistic", {.family = "logistic"}},
    {"Resnet", {.depth = 8}},
    {"ResnetBottleneckPre",
     {.depth = 8, .block = ResNetBlock::kBottleneck, .version = 2}},
    {"WrnPost", {.family = "wrn", .depth = 8, .width = 2}},
    {"WrnPreDropout",
     {.family = "wrn",
      .depth = 10,
      .width = 1,
      .form = BlockForm::kPre,
      .dropout = 0.2}},
    {"Tensor2TensorBasic",
     {.variant = ResNetVariant::kT2t, .stages = {2, 1}, .widths = {16, 32}}},
    {"Tensor2TensorBottleneck",
     {.block = ResNetBlock::kBottleneck,
      .variant = ResNetVariant::kT2t,
      .stages = {2, 1},
      .widths = {16, 16}}},
    {"GluonBottleneck",
     {.block = ResNetBlock::kBottleneck,
      .variant = ResNetVariant::kGluon,
      .stages = {1, 2},
      .widths = {16, 16}}},
    {"GluonPre",
     {.stem = StemForm::kImagenet,
      .version = 2,
      .variant = ResNetVariant::kGluon,
      .stages = {1, 1},
      .widths = {16, 32}}},
    {"ImagenetStem", {.depth = 18, .stem = StemForm::kImagenet}},
    {"ImagenetStemPre",
     {.depth = 18, .stem = StemForm::kImagenet, .version = 2}},
};

class Step : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(,
                         Step,
                         testing::ValuesIn(kForms),
                         [](const auto& info) { return info.param.name; });

TEST_P(Step, ListenerHearsFallingOffsetsOfFinalGradients) {
  ModelBench bench(GetParam().options, kSpec, kBatch);
  const int64_t calls = expect_final_gradients_heard(bench);
  // More than one call where there is more than one layer.
  if (bench.model().parameters().num_tensors() > 2) {
    EXPECT_GE(calls, 5);
  }
}

TEST_P(Step, RepeatingAndReplanningKeepTheBits) {
  ModelBench bench(GetParam().options, kSpec, kBatch);
  expect_the_same_bits_again(bench);
}

TEST_P(Step, SmallerBatchesScoreAlike) {
  ModelBench bench(GetParam().options, kSpec, kBatch);
  bench.step();  // running statistics of some batch
  const std::vector<float> all = bench.scores(bench.batch());
  ASSERT_EQ(std::ssize(all), kBatch * kSpec.classes);
  std::vector<float> parts;
  for (const auto& [first, samples] :
       {std::pair<int64_t, int64_t>{0, 4}, {4, 1}, {5, 1}})
    for (const float score : bench.scores(bench.batch(first, samples)))
      parts.push_back(score);
  ASSERT_EQ(parts.size(), all.size());
  // Another algorithm may be taken for another size: rounding of fp32.
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_NEAR(parts[i], all[i], 1e-4 * std::max(1.f, std::abs(all[i])));
}

TEST_P(Step, EvaluationSumsWhatPredictionScores) {
  ModelBench bench(GetParam().options, kSpec, kBatch);
  const MetricSums sums = bench.evaluate();
  ASSERT_EQ(sums.values.size(), 3u);
  ASSERT_EQ(bench.model().metrics().size(), 3u);
  const std::vector<float> scores = bench.scores(bench.batch());
  double loss = 0, correct = 0, top5 = 0;
  for (int64_t n = 0; n < kBatch; ++n) {
    const float* row = scores.data() + n * kSpec.classes;
    const int32_t label = bench.labels_[n];
    double sum = 0;
    int64_t above = 0;
    for (int64_t k = 0; k < kSpec.classes; ++k) {
      sum += std::exp(double{row[k]} - row[label]);
      above += row[k] > row[label] ? 1 : 0;
    }
    loss += std::log(sum);
    correct += above == 0 ? 1 : 0;
    top5 += above < 5 ? 1 : 0;
  }
  EXPECT_NEAR(sums.values[0], loss, 1e-5 * loss);  // fp32 exponentials
  EXPECT_EQ(sums.values[1], correct);
  EXPECT_EQ(sums.values[2], top5);
  EXPECT_EQ(sums.samples, kBatch);
}

TEST(Accumulation, PartsOfABatchAddUpWithoutBatchNorm) {
  ModelBench bench({.family = "logistic"}, kSpec, kBatch);
  bench.step();
  const std::vector<float> whole = bench.gradients_;
  std::ranges::fill(bench.gradients_, 0.f);
  bench.accumulate(bench.batch(0, 2));
  bench.accumulate(bench.batch(2, 4));
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_NEAR(bench.gradients_[i], whole[i], 1e-6);  // sums of 6 in fp32
}

TEST(Accumulation, DoublesWithTheSameBatchTwice) {
  ModelBench bench({.depth = 8}, kSpec, kBatch);
  bench.step();
  const std::vector<float> once = bench.gradients_;
  bench.accumulate(bench.batch());
  std::vector<float> twice = once;
  for (float& gradient : twice) gradient *= 2;
  EXPECT_LT(distance(bench.gradients_, twice), 1e-5);  // rounding of fp32 sums
}

TEST(Dropout, CallChoosesTheMask) {
  ModelBench bench(
      {.family = "wrn", .depth = 10, .form = BlockForm::kPre, .dropout = 0.3},
      kSpec, kBatch);
  const auto loss_of = [&](uint64_t seed, uint64_t call) {
    StepSettings settings;
    settings.dropout_seed = seed;
    settings.first_sample = call;
    return bench.model()
        .forward_backward(bench.context(), bench.view(), bench.batch(),
                          settings, {})
        .get()
        .values[0];
  };
  EXPECT_EQ(loss_of(1, 1), loss_of(1, 1));
  EXPECT_NE(loss_of(1, 1), loss_of(1, 2));
  EXPECT_NE(loss_of(1, 1), loss_of(2, 1));
  // Evaluation has none.
  EXPECT_EQ(bench.scores(bench.batch()), bench.scores(bench.batch()));
}

TEST(Statistics, AreTheExactAverageOverBatches) {
  ModelBench bench({.depth = 8}, kSpec, kBatch);
  const auto statistics_of = [&](int64_t first, int64_t samples) {
    bench.model().recompute_statistics(bench.context(), bench.view(),
                                       bench.batch(first, samples), 0);
    bench.fetch();
    return bench.buffers_;
  };
  const std::vector<float> a = statistics_of(0, 3), b = statistics_of(3, 3);
  std::ranges::fill(bench.buffers_, 123.f);  // must have no effect
  for (int64_t index = 0; index < 2; ++index) {
    bench.model().recompute_statistics(bench.context(), bench.view(),
                                       bench.batch(3 * index, 3), index);
    bench.fetch();
  }
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(bench.buffers_[i], 0.5 * (a[i] + b[i]),
                1e-5 * (1 + std::abs(a[i])));  // one rounding in fp32
}

TEST(Statistics, TrainingMovesThemByATenth) {
  ModelBench bench({.depth = 8}, kSpec, kBatch);
  bench.step();
  const std::vector<float> moved = bench.buffers_;
  bench.model().recompute_statistics(bench.context(), bench.view(),
                                     bench.batch(), 0);
  bench.fetch();
  // The stem's, whose input is the same in both passes: from mean 0 and
  // variance 1.
  const ParameterEntry& mean = bench.model().buffers()[0];
  for (int64_t c = 0; c < mean.elems(); ++c) {
    EXPECT_NEAR(moved[c], 0.1 * bench.buffers_[c], 1e-6);
    EXPECT_NEAR(moved[16 + c], 0.9 + 0.1 * bench.buffers_[16 + c], 1e-6);
  }
}

TEST(Initialise, IsSeededAndScaledAsPublished) {
  const auto model =
      make_model({.depth = 20}, ImageSpec{3, 32, 32, 10}, DType::kF32);
  const ParameterTable& table = model->parameters();
  const auto draw = [&](uint64_t seed) {
    std::vector<float> parameters(table.num_elems());
    std::vector<float> buffers(model->buffers().num_elems(), 5.f);
    model->initialise(parameters, buffers, seed);
    EXPECT_EQ(buffers[0], 0.f);   // stem.bn.running_mean
    EXPECT_EQ(buffers[16], 1.f);  // stem.bn.running_var
    return parameters;
  };
  const std::vector<float> values = draw(1);
  EXPECT_EQ(values, draw(1));
  EXPECT_NE(values, draw(2));
  for (const ParameterEntry& entry : table.entries()) {
    const auto tensor = std::span(values).subspan(entry.offset, entry.elems());
    double square = 0;
    for (const float value : tensor) square += double{value} * value;
    const double deviation = std::sqrt(square / double(entry.elems()));
    // Five standard errors of a deviation from n draws, 1 / sqrt(2 n).
    const double slack = 5 / std::sqrt(2 * double(entry.elems()));
    const Shape& shape = entry.shape;
    if (shape.rank() == 4) {
      const double want =
          std::sqrt(2.0 / double(shape[0] * shape[2] * shape[3]));
      EXPECT_NEAR(deviation, want, slack * want) << entry.name;
    } else if (shape.rank() == 2) {
      const double bound = 1 / std::sqrt(double(shape[1]));
      EXPECT_NEAR(deviation, bound / std::sqrt(3.0), slack * bound);
      EXPECT_LE(std::abs(*std::ranges::max_element(tensor)), bound);
    } else if (entry.role == Role::kBatchNorm) {
      const float want = entry.name.ends_with(".weight") ? 1.f : 0.f;
      EXPECT_TRUE(std::ranges::all_of(
          tensor, [&](float value) { return value == want; }));
    }
  }
}

TEST(Refusals, BatchThatBatchNormCannotTrain) {
  auto device = make_cpu_device();
  auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  const auto model =
      make_model({.depth = 8}, ImageSpec{1, 4, 4, 10}, DType::kF32);
  EXPECT_EQ(model->batch_obstacle(1),
            "images of 4 x 4 are a single pixel in the last stage, where "
            "BatchNorm needs two values a channel");
  EXPECT_EQ(model->batch_obstacle(2), "");
  EXPECT_THROW(model->plan(context, 1, 1), Error);
  model->plan(context, 2, 1);
  model->plan(context, 0, 1);  // evaluations take single images
}

// ResNet-20 with batch 128 keeps two tensors per convolution (199 MB) and
// little else at its peak; a step of PyTorch 1.13 adds 283 MB to its process.
TEST(Memory, ResnetPeakIsWhatBackwardReads) {
  auto device = make_cpu_device();
  auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  const auto model =
      make_model({.depth = 20}, ImageSpec{3, 32, 32, 10}, DType::kF32);
  model->plan(context, 128, 128);
  EXPECT_LT(model->activation_bytes(), 205e6);
  // Evaluations keep nothing: a few tensors of 8.4 MB at a time.
  model->plan(context, 0, 128);
  EXPECT_LT(model->activation_bytes(), 45e6);
}

class HalfPrecision : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(,
                         HalfPrecision,
                         testing::ValuesIn(kForms),
                         [](const auto& info) { return info.param.name; });

TEST_P(HalfPrecision, LossAndGradientAreClose) {
  if (!cpu_features().has_bf16)
    GTEST_SKIP() << "this processor has no bf16 instructions";
  // Images large enough that BatchNorm has 24 values per channel or more: with
  // six it multiplies rounding errors.
  const ImageSpec spec = GetParam().options.stem == StemForm::kImagenet
                             ? ImageSpec{3, 33, 34, 7}
                             : kSpec;
  ModelOptions options = GetParam().options;
  // Dropout draws by place in memory, and there layouts differ.
  if (cpu_has_bf16_tiles()) options.dropout = 0;
  ModelBench fp32(options, spec, kBatch);
  ModelBench bf16(options, spec, kBatch, DType::kBf16);
  const double loss = fp32.step();
  // bf16 has 8 bits: 0.4% per operation, averaged over many.
  EXPECT_NEAR(bf16.step(), loss, 0.05 * loss);
  double product = 0, square32 = 0, square16 = 0;
  for (size_t i = 0; i < fp32.gradients_.size(); ++i) {
    product += double{fp32.gradients_[i]} * bf16.gradients_[i];
    square32 += std::pow(double{fp32.gradients_[i]}, 2);
    square16 += std::pow(double{bf16.gradients_[i]}, 2);
  }
  // Nearly parallel and of the same length; the angle grows with the layers.
  const double cosine = GetParam().options.depth > 10 ? 0.9 : 0.97;
  EXPECT_GT(product / std::sqrt(square32 * square16), cosine);
  EXPECT_NEAR(std::sqrt(square16 / square32), 1, 0.1);
  if (GetParam().options.family != "logistic") {
    EXPECT_LT(bf16.model().activation_bytes(),
              0.65 * double(fp32.model().activation_bytes()));
  }
}

}  // namespace
}  // namespace syncopate
