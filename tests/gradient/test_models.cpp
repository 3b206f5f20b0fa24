// Every family and form, small, from the images to the loss: the gradient of
// each tensor by central differences.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gradient/model_bench.h"

namespace syncopate {
namespace {

// Steps cross kinks of ReLU and of the maximum (gradient_check.h), with errors
// of up to 6%. test_layers.cpp tests blocks to 0.2%. The remaining mistakes of
// a whole network, paths that are missing or taken twice, cause errors of
// order 1. unit/models/test_fixtures.cpp compares with an independent program
// to 1e-4.
constexpr double kTolerance = 0.1;
// Gradients that vanish by nature (gradient_check.h); others are above 0.02.
constexpr double kFloor = 1e-3;

// Checks the first `tensors` entries, which lie at the end of backward.
void expect_right(ModelBench& bench, int64_t tensors) {
  bench.step();
  const std::vector<float> gradients = bench.gradients_;
  for (int64_t index = 0; index < tensors; ++index) {
    const ParameterEntry& entry =
        bench.model().parameters()[static_cast<int>(index)];
    EXPECT_LT(bench.error_of(entry, gradients, 1, kFloor), kTolerance)
        << entry.name;
  }
}

struct Case {
  std::string name;
  ModelOptions options;
  ImageSpec spec{3, 9, 8, 7};
  int64_t batch = 4;
  int64_t tensors = 0;  // 0: all
};
const Case kCases[] = {
    {"Logistic", {.family = "logistic"}, {2, 5, 4, 7}, 6},
    {"SmoothedLabels",
     {.family = "logistic", .label_smoothing = 0.3},
     {2, 5, 4, 7},
     6},
    {"ResnetBasic", {.depth = 8}},
    {"ResnetBottleneck", {.depth = 8, .block = ResNetBlock::kBottleneck}},
    {"ResnetPreActivation", {.depth = 8, .version = 2}},
    {"ResnetPreActivationBottleneck",
     {.depth = 8, .block = ResNetBlock::kBottleneck, .version = 2}},
    {"WrnPost", {.family = "wrn", .depth = 8, .width = 2}},
    {"WrnPre",
     {.family = "wrn", .depth = 10, .width = 2, .form = BlockForm::kPre}},
    {"WrnPreWithDropout",
     {.family = "wrn",
      .depth = 10,
      .width = 2,
      .form = BlockForm::kPre,
      .dropout = 0.3}},
    // A projection of the activated input with BatchNorm, a stem of 7x7 with
    // BatchNorm, nothing behind the last stage; and its bottleneck.
    {"Tensor2TensorBasic",
     {.variant = ResNetVariant::kT2t, .stages = {2, 1}, .widths = {8, 16}}},
    {"Tensor2TensorBottleneck",
     {.block = ResNetBlock::kBottleneck,
      .variant = ResNetVariant::kT2t,
      .stages = {2, 1},
      .widths = {8, 8}}},
    // Biases in front of BatchNorm, whose gradient is 0, the stride in the
    // first convolution; and BatchNorm of the images.
    {"GluonBottleneck",
     {.block = ResNetBlock::kBottleneck,
      .variant = ResNetVariant::kGluon,
      .stages = {1, 2},
      .widths = {8, 8}}},
    {"GluonPreActivation",
     {.stem = StemForm::kImagenet,
      .version = 2,
      .variant = ResNetVariant::kGluon,
      .stages = {1, 1},
      .widths = {8, 16}},
     {3, 17, 16, 7}},
    // Eleven million parameters: the stem only, where every path ends.
    {"Resnet18WithImagenetStem",
     {.depth = 18, .stem = StemForm::kImagenet},
     {3, 17, 20, 7},
     4,
     2},
    {"Resnet18PreActivationWithImagenetStem",
     {.depth = 18, .stem = StemForm::kImagenet, .version = 2},
     {3, 17, 20, 7},
     4,
     2},
};

class Models : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(,
                         Models,
                         testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(Models, EveryTensor) {
  const auto& [name, options, spec, batch, tensors] = GetParam();
  ModelBench bench(options, spec, batch);
  expect_right(
      bench, tensors == 0 ? bench.model().parameters().num_tensors() : tensors);
}

// A path forgotten is seen at this tolerance.
TEST(ModelCheck, RefusesAForgottenShortcut) {
  ModelBench bench({.depth = 8}, {3, 9, 8, 7}, 4);
  EXPECT_GT(bench.error_of_scaled(0.7f), kTolerance);
}

}  // namespace
}  // namespace syncopate
