// DeepFM against values recorded from PyTorch in double precision
// (tests/reference/make_deepfm_fixtures.py), and what it promises.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/safetensors.h"
#include "gradient/deepfm_bench.h"
#include "models/gradient_values.h"
#include "network_contract.h"
#include "support/expect_error.h"
#include "support/fixtures.h"

namespace syncopate {
namespace {

constexpr double kTolerance = 1e-5;  // of a tensor's norm

const ClickSpec kSpec{{3, 7, 4, 11, 2}};
constexpr int64_t kBatch = 7;

DeepFmShape shape(float dropout = 0) {
  return {4, {8, 6}, dropout};
}

void fill(DeepFmBench& bench) {
  for (const ParameterEntry& entry : bench.model().parameters().entries()) {
    const auto number =
        std::accumulate(entry.name.begin(), entry.name.end(), uint64_t{0});
    const bool is_gamma =
        entry.role == Role::kBatchNorm && entry.name.ends_with(".weight");
    for (int64_t i = 0; i < entry.elems(); ++i)
      bench.parameters_[entry.offset + i] =
          (is_gamma ? 1.f : 0.f) + static_cast<float>(made_uniform(number, i));
  }
}

std::vector<float> wanted(const SafeTensors& file, const std::string& name) {
  std::vector<float> values(static_cast<size_t>(file.tensor(name).elems));
  file.read(name, values);
  return values;
}

void compare_step(DType compute, double tolerance) {
  const SafeTensors recorded(fixture_path("deepfm.safetensors"));
  DeepFmBench bench(kSpec, shape(), kBatch, compute);
  fill(bench);
  EXPECT_NEAR(bench.step(), wanted(recorded, "loss")[0], tolerance);
  for (const ParameterEntry& entry : bench.model().parameters().entries()) {
    // The gradient of a bias before a BatchNorm is zero up to rounding.
    if (entry.name.ends_with(".linear.bias")) continue;
    EXPECT_LT(distance(bench.gradient(entry),
                       wanted(recorded, "gradient." + entry.name)),
              tolerance)
        << entry.name;
  }
  for (const ParameterEntry& entry : bench.model().buffers().entries())
    EXPECT_LT(
        distance(std::span(bench.buffers_).subspan(entry.offset, entry.elems()),
                 wanted(recorded, "buffer." + entry.name)),
        tolerance)
        << entry.name;
  // With the statistics after the step.
  EXPECT_LT(
      distance(bench.scores(bench.batch()), wanted(recorded, "evaluated")),
      tolerance);
}

TEST(DeepFm, StepEqualsPyTorch) {
  compare_step(DType::kF32, kTolerance);
}

TEST(DeepFm, StepInBf16IsNear) {
  if (!test::has_bf16())
    GTEST_SKIP() << "this processor has no bf16 instructions";
  compare_step(DType::kBf16, 0.1);
}

// Tables of any number of rows come first, so matrices and their gradients may
// start at any element; a GPU's library takes aligned ones only.
TEST(DeepFm, MatricesMayStartAnywhere) {
  for (const int64_t rows : {11, 12, 13, 14}) {
    DeepFmBench bench({{rows}}, {4, {16, 12}, 0}, 16);
    fill(bench);
    bench.step();
    const std::vector<float> gradients = bench.gradients_;
    for (const ParameterEntry& entry : bench.model().parameters().entries()) {
      if (entry.role != Role::kWeight) continue;
      EXPECT_LT(bench.error_of(entry, gradients, 2, 0.01), 3e-3)
          << entry.name << " at " << entry.offset;
    }
  }
}

TEST(DeepFm, KeepsTheContract) {
  DeepFmBench bench(kSpec, shape(0.5f), kBatch);
  EXPECT_EQ(expect_final_gradients_heard(bench), 4);
  expect_the_same_bits_again(bench);
}

TEST(DeepFm, TablesComeFirstAndBatchesTouchFewOfTheirRows) {
  DeepFmBench bench(kSpec, shape(), 2);
  const auto& entries = bench.model().parameters().entries();
  EXPECT_EQ(entries[0].role, Role::kEmbedding);
  EXPECT_EQ(entries[0].shape, Shape({27, 4}));
  EXPECT_EQ(entries[1].role, Role::kEmbedding);
  EXPECT_EQ(entries[1].shape, Shape({27, 1}));
  bench.step();
  int touched = 0;
  for (int64_t row = 0; row < 27; ++row) {
    const auto gradient = std::span(bench.gradients_).subspan(row * 4, 4);
    touched += std::ranges::any_of(gradient, [](float g) { return g != 0; });
  }
  EXPECT_GE(touched, 5);
  EXPECT_LE(touched, 10);
}

// Step after step with other rows, where only marked blocks are cleared.
TEST(DeepFm, ClearingMarkedBlocksLeavesNoGradientBehind) {
  constexpr int64_t N = 6, kRows = 5000;
  for (const bool records : {false, true}) {
    if (records && test::test_device().kind() != DeviceKind::kCuda) continue;
    DeepFmBench bench({{kRows, 3}}, {10, {8}, 0.5f}, N);
    GradientValues gradients(bench.context(), bench.model());
    for (int step = 0; step < 5; ++step) {
      for (size_t n = 0; n < N; ++n)
        bench.records_.rows[2 * n] =
            static_cast<int32_t>((bench.records_.rows[2 * n] + 1117) % kRows);
      bench.step();
      // Somebody's average, say, in the whole range.
      if (step == 2) gradients.assign(bench.parameters_);
      gradients.clear(bench.context());
      ReplicaView view = bench.view();
      view.gradients = gradients.marked();
      view.touched = gradients.marks();
      bench.model()
          .forward_backward(
              bench.context(), view, bench.batch(),
              {.loss_samples = N, .dropout_seed = 11, .records = records}, {})
          .get();
      EXPECT_NE(gradients.touched().marks, nullptr);
      OnHost seen(bench.on().device, *bench.on().stream, gradients.marked());
      EXPECT_TRUE(std::ranges::equal(seen.values(), bench.gradients_)) << step;
    }
  }
}

// Gradients that are assigned with their rows are cleared like those of a step.
TEST(DeepFm, AssignedRowsAreMarked) {
  DeepFmBench bench({{5000, 3}}, {10, {8}, 0.5f}, 2);
  const ParameterTable& parameters = bench.model().parameters();
  GradientValues gradients(bench.context(), bench.model());
  std::vector<float> values(parameters.num_elems(), 0.0f);
  std::vector<std::vector<int32_t>> rows{{0, 17, 4999}, {2500}};
  for (int table : {0, 1})
    for (const int32_t row : rows[table])
      values[parameters[table].offset + row * parameters[table].shape[1]] = 1;
  values.back() = 2;
  gradients.assign(values, parameters, rows);
  ASSERT_NE(gradients.touched().marks, nullptr);
  {
    OnHost seen(bench.on().device, *bench.on().stream, gradients.marked());
    EXPECT_TRUE(std::ranges::equal(seen.values(), values));
  }
  gradients.clear(bench.context());
  OnHost seen(bench.on().device, *bench.on().stream, gradients.marked());
  EXPECT_EQ(std::ranges::count(seen.values(), 0.0f), std::ssize(values));
}

TEST(DeepFm, EvaluationIsThatOfItsSamplesOneByOne) {
  DeepFmBench bench(kSpec, shape(0.5f), kBatch);
  fill(bench);
  const std::vector<float> together = bench.scores(bench.batch());
  ASSERT_EQ(together.size(), size_t{kBatch});
  for (int64_t n = 0; n < kBatch; ++n)
    EXPECT_NEAR(bench.scores(bench.batch(n, 1))[0], together[n], 1e-5);
  const MetricSums sums = bench.evaluate();
  double loss = 0, correct = 0;
  for (int64_t n = 0; n < kBatch; ++n) {
    const double z = together[n];
    const bool clicked = bench.records_.labels[n] == 1;
    loss += std::log1p(std::exp(clicked ? -z : z));
    correct += (z > 0) == clicked;
  }
  EXPECT_NEAR(sums.values[0], loss, 1e-5);
  EXPECT_EQ(sums.values[1], correct);
}

TEST(DeepFm, DropoutDrops) {
  DeepFmBench with(kSpec, shape(0.5f), kBatch), without(kSpec, shape(), kBatch);
  fill(with), fill(without);
  EXPECT_NE(with.step(), without.step());
}

TEST(DeepFm, WithoutHiddenLayers) {
  DeepFmBench bench(kSpec, {4, {}, 0}, 1);
  EXPECT_GT(bench.step(), 0);
}

TEST(DeepFm, InitialisesTablesXavierUniform) {
  DeepFmBench bench({{500, 500}}, {8, {16}, 0}, 4);
  const double bound = std::sqrt(6.0 / (1000 + 8));
  double largest = 0, sum = 0;
  for (int64_t i = 0; i < 8000; ++i) {
    largest = std::max(largest, std::abs(double{bench.parameters_[i]}));
    sum += bench.parameters_[i];
  }
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);
  EXPECT_NEAR(sum / 8000, 0, 4 * bound / std::sqrt(3.0 * 8000));
}

TEST(DeepFm, AGpuRefusesMoreLookupsThanItSorts) {
  test::TestContext on(1);
  if (on.device.kind() == DeviceKind::kCpu) return;
  DeepFm model(kSpec, DType::kF32, shape());
  expect_error(ExitCode::kBadInput,
               "data.batch: 3355444: with 5 fields, on a GPU expected at most "
               "3355443",
               [&] { model.plan(on.context, (int64_t{1} << 24) / 5 + 1, 4); });
}

TEST(DeepFm, CannotTrainOnABatchOfOne) {
  const DeepFm model(kSpec, DType::kF32, shape());
  EXPECT_EQ(model.batch_obstacle(1), "BatchNorm needs two values a channel");
  EXPECT_EQ(model.batch_obstacle(2), "");
  const DeepFm without(kSpec, DType::kF32, {4, {}, 0});
  EXPECT_EQ(without.batch_obstacle(1), "");
}

TEST(DeepFm, PlannedForEvaluationsItEvaluatesInLessMemory) {
  DeepFmBench bench(kSpec, shape(0.5f), kBatch);
  fill(bench);
  const std::vector<float> scores = bench.scores(bench.batch());
  const MetricSums sums = bench.evaluate();
  const int64_t bytes = bench.model().activation_bytes();
  bench.model().plan(bench.context(), 0, kBatch);
  EXPECT_LT(bench.model().activation_bytes(), bytes);
  EXPECT_EQ(bench.scores(bench.batch()), scores);
  EXPECT_EQ(bench.evaluate().values, sums.values);
}

}  // namespace
}  // namespace syncopate
