// Every family and form, small, from the images to the loss: the gradient of
// each tensor by central differences.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gradient/model_bench.h"

namespace syncopate {
namespace {

// Steps cross kinks of ReLU and of the maximum (gradient_check.h): up to 6%
// seen. What a whole network can get wrong beyond its blocks, which are held
// to 0.2% by test_layers.cpp, is a path forgotten or taken twice: of order 1.
// Against an independent program, to 1e-4: unit/models/test_fixtures.cpp.
constexpr double kTolerance = 0.1;
// Gradients that vanish by nature (gradient_check.h); others are above 0.02.
constexpr double kFloor = 1e-3;

// Checks the first `tensors` entries, which lie at the end of backward.
void expect_right(ModelBench& bench, int64_t tensors) {
  bench.step();
  const std::vector<float> gradients = bench.gradients_;
  const auto objective = [&] { return bench.step(); };
  for (int64_t index = 0; index < tensors; ++index) {
    const ParameterEntry& entry =
        bench.model().parameters()[static_cast<int>(index)];
    const double error = directional_error(
        std::span(bench.parameters_).subspan(entry.offset, entry.elems()),
        std::span(gradients).subspan(entry.offset, entry.elems()), objective, 1,
        kFloor);
    EXPECT_LT(error, kTolerance) << entry.name;
  }
}

void expect_right(const ModelOptions& options,
                  const ImageSpec& spec,
                  int64_t batch) {
  ModelBench bench(options, spec, batch);
  expect_right(bench, bench.model().parameters().num_tensors());
}

const ImageSpec kSmall{3, 9, 8, 7};

TEST(Models, Logistic) {
  expect_right({.family = "logistic"}, {2, 5, 4, 7}, 6);
}

TEST(Models, ResnetBasic) {
  expect_right({.depth = 8}, kSmall, 4);
}

TEST(Models, ResnetBottleneck) {
  expect_right({.depth = 8, .block = ResNetBlock::kBottleneck}, kSmall, 4);
}

TEST(Models, ResnetPreActivation) {
  expect_right({.depth = 8, .version = 2}, kSmall, 4);
}

TEST(Models, ResnetPreActivationBottleneck) {
  expect_right({.depth = 8, .block = ResNetBlock::kBottleneck, .version = 2},
               kSmall, 4);
}

TEST(Models, WrnPost) {
  expect_right({.family = "wrn", .depth = 8, .width = 2}, kSmall, 4);
}

TEST(Models, WrnPre) {
  expect_right(
      {.family = "wrn", .depth = 10, .width = 2, .form = BlockForm::kPre},
      kSmall, 4);
}

TEST(Models, WrnPreWithDropout) {
  expect_right({.family = "wrn",
                .depth = 10,
                .width = 2,
                .form = BlockForm::kPre,
                .dropout = 0.3},
               kSmall, 4);
}

// Tensor2Tensor's: a projection of the activated input with BatchNorm, a stem
// of 7x7 with BatchNorm, nothing behind the last stage; and its bottleneck.
TEST(Models, Tensor2TensorBasic) {
  expect_right(
      {.variant = ResNetVariant::kT2t, .stages = {2, 1}, .widths = {8, 16}},
      kSmall, 4);
}

TEST(Models, Tensor2TensorBottleneck) {
  expect_right({.block = ResNetBlock::kBottleneck,
                .variant = ResNetVariant::kT2t,
                .stages = {2, 1},
                .widths = {8, 8}},
               kSmall, 4);
}

// Gluon's: biases in front of BatchNorm, whose gradient is 0, the stride in the
// first convolution; and BatchNorm of the images.
TEST(Models, GluonBottleneck) {
  expect_right({.block = ResNetBlock::kBottleneck,
                .variant = ResNetVariant::kGluon,
                .stages = {1, 2},
                .widths = {8, 8}},
               kSmall, 4);
}

TEST(Models, GluonPreActivation) {
  expect_right({.stem = StemForm::kImagenet,
                .version = 2,
                .variant = ResNetVariant::kGluon,
                .stages = {1, 1},
                .widths = {8, 16}},
               {3, 17, 16, 7}, 4);
}

// Eleven million parameters: the stem only, where every path ends.
void expect_right_stem(const ModelOptions& options, const ImageSpec& spec) {
  ModelBench bench(options, spec, 4);
  expect_right(bench, 2);
}

TEST(Models, Resnet18WithImagenetStem) {
  expect_right_stem({.depth = 18, .stem = StemForm::kImagenet}, {3, 17, 20, 7});
}

TEST(Models, Resnet18PreActivationWithImagenetStem) {
  expect_right_stem({.depth = 18, .stem = StemForm::kImagenet, .version = 2},
                    {3, 17, 20, 7});
}

// A path forgotten is seen at this tolerance.
TEST(Models, CheckRefusesAForgottenShortcut) {
  ModelBench bench({.depth = 8}, kSmall, 4);
  bench.step();
  std::vector<float> gradients = bench.gradients_;
  const auto objective = [&] { return bench.step(); };
  const ParameterEntry& stem = bench.model().parameters()[0];
  for (int64_t i = 0; i < stem.elems(); ++i) gradients[i] *= 0.7f;
  EXPECT_GT(directional_error(
                std::span(bench.parameters_).subspan(0, stem.elems()),
                std::span(gradients).subspan(0, stem.elems()), objective),
            kTolerance);
}

}  // namespace
}  // namespace syncopate
