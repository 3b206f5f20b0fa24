// Each layer and block by central differences, with a fixed random upstream
// gradient, in both layouts of image activations.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/rng.h"
#include "gradient/layer_bench.h"
#include "layers/dropout.h"
#include "layers/linear.h"
#include "layers/pool.h"
#include "layers/post_activation_block.h"
#include "layers/pre_activation_block.h"
#include "ops/library.h"

namespace syncopate {
namespace {

constexpr int64_t kSamples = 3;
// fp32: the objective is a sum of some thousand terms of order one, rounded to
// 1e-6 of its size, divided by steps of 1e-3 and more.
constexpr double kTolerance = 2e-3;
// For steps that cross kinks of ReLU (gradient_check.h). A missing mask, or one
// from the wrong tensor, causes a far larger error.
constexpr double kKinkTolerance = 8e-2;
// The upstream gradient is of order one an element, so is what a parameter
// gets from the least of its elements.
constexpr double kFloor = 1;

void expect_right(LayerBench& bench,
                  double tolerance = kTolerance,
                  int directions = 2) {
  bench.backward();
  const auto objective = [&] { return bench.objective(); };
  EXPECT_LT(directional_error(bench.x(), bench.dx(), objective, directions),
            tolerance)
      << "dx";
  for (const ParameterEntry& entry : bench.table().entries()) {
    const std::span<float> values = bench.values(entry);
    const std::span<float> gradient = bench.gradient(entry);
    EXPECT_LT(
        directional_error(values, gradient, objective, directions, kFloor),
        tolerance)
        << entry.name;
  }
}

class Layers : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    if (GetParam() == Layout::kNchw16c && !cpu_has_blocks_of_16())
      GTEST_SKIP() << "blocks of 16 are chosen on processors with AVX-512 only";
  }
};
INSTANTIATE_TEST_SUITE_P(,
                         Layers,
                         testing::Values(Layout::kNhwc, Layout::kNchw16c),
                         [](const auto& info) {
                           return std::string(name_of(info.param));
                         });

using TakeInput = std::function<Slot(Walk&)>;

TakeInput image(const ImageSize& size) {
  return [=](Walk& walk) { return walk.take_image(size); };
}

// A layer of which `backward(walk, dy, x)` gives dx.
void set_layer(
    LayerBench& bench,
    const TakeInput& take_x,
    const LayerForward& forward,
    const std::function<Slot(Walk&, const Slot&, const Slot&)>& backward) {
  bench.set(take_x, forward,
            [=](Walk& walk, const Slot& dy, const Slot& x, const Slot& y) {
              walk.give_back(y);
              const Slot dx = backward(walk, dy, x);
              walk.give_back(dy);
              return dx;
            });
}

void set_conv(LayerBench& bench, const ImageSize& in, const ConvShape& shape) {
  Registrar registrar = bench.registrar();
  const Conv2d conv(registrar, "conv", in, shape);
  set_layer(
      bench, image(in),
      [=](Walk& walk, const Slot& x) { return conv.forward(walk, x); },
      [=](Walk& walk, const Slot& dy, const Slot& x) {
        return conv.backward(walk, dy, x);
      });
}

TEST_P(Layers, Convolutions) {
  for (const auto& [in, shape] :
       {std::pair<ImageSize, ConvShape>{{16, 6, 5}, {32, 3}},
        {{16, 7, 6}, {16, 3, 2}},
        {{16, 7, 6}, {32, 1, 2}}}) {
    SCOPED_TRACE(fmt::format("{}x{} stride {}", shape.window, shape.window,
                             shape.stride));
    LayerBench bench(GetParam(), kSamples);
    set_conv(bench, in, shape);
    expect_right(bench);
  }
}

TEST(StemConvolution, SevenBySevenOnThreeChannels) {
  LayerBench bench(Layout::kNhwc, kSamples);
  set_conv(bench, {3, 11, 10}, {16, 7, 2});
  expect_right(bench);
  const auto objective = [&] { return bench.objective(); };
  const ParameterEntry& weight = bench.table()[0];
  // Linear in the weights, so large steps are exact and elements fine.
  EXPECT_LT(elementwise_error(bench.values(weight), bench.gradient(weight),
                              objective),
            kTolerance);
}

void set_batch_norm(LayerBench& bench, Activation activation) {
  Registrar registrar = bench.registrar();
  const auto bn = std::make_shared<BatchNorm>(registrar, "bn", 16, activation);
  bench.set(
      image({16, 4, 3}),
      [=](Walk& walk, const Slot& x) { return bn->forward(walk, x); },
      [=](Walk& walk, const Slot& dy, const Slot& x, const Slot& y) {
        walk.give_back(y);
        return bn->backward(walk, {dy}, x);
      });
}

TEST_P(Layers, BatchNormAlone) {
  LayerBench bench(GetParam(), kSamples);
  set_batch_norm(bench, Activation::kNone);
  expect_right(bench);
  const auto objective = [&] { return bench.objective(); };
  EXPECT_LT(elementwise_error(bench.x(), bench.dx(), objective), kTolerance);
}

TEST_P(Layers, BatchNormWithRelu) {
  LayerBench bench(GetParam(), kSamples);
  set_batch_norm(bench, Activation::kRelu);
  expect_right(bench, kKinkTolerance);
  bench.keep_relus_off_kinks();
  expect_right(bench);
}

TEST(Dense, Linear) {
  LayerBench bench(Layout::kNhwc, kSamples);
  Registrar registrar = bench.registrar();
  const Linear fc(registrar, "fc", 20, 7);
  set_layer(
      bench,
      [](Walk& walk) {
        return walk.take(DType::kF32, {walk.samples(), 20});
      },
      [=](Walk& walk, const Slot& x) { return fc.forward(walk, x); },
      [=](Walk& walk, const Slot& dy, const Slot& x) {
        return fc.backward(walk, dy, x);
      });
  expect_right(bench);
  const auto objective = [&] { return bench.objective(); };
  for (const ParameterEntry& entry : bench.table().entries())
    EXPECT_LT(elementwise_error(bench.values(entry), bench.gradient(entry),
                                objective),
              kTolerance)
        << entry.name;
}

template <typename Pool>
void expect_pool_right(Layout layout, const ImageSize& in) {
  LayerBench bench(layout, kSamples);
  const auto pool = std::make_shared<Pool>(in);
  set_layer(
      bench, image(in),
      [=](Walk& walk, const Slot& x) { return pool->forward(walk, x); },
      [=](Walk& walk, const Slot& dy, const Slot&) {
        return pool->backward(walk, dy);
      });
  expect_right(bench);
}

TEST_P(Layers, MaxPool) {
  expect_pool_right<MaxPool>(GetParam(), {16, 7, 6});
}

TEST_P(Layers, GlobalAveragePool) {
  expect_pool_right<GlobalAveragePool>(GetParam(), {16, 5, 3});
}

// Dropout works in place, so it needs a layer before it: here a convolution.
TEST_P(Layers, DropoutBehindAConvolution) {
  LayerBench bench(GetParam(), kSamples);
  Registrar registrar = bench.registrar();
  const Conv2d conv(registrar, "conv", {16, 5, 4}, {16, 1});
  const Dropout dropout(0.4f, 2);
  set_layer(
      bench, image({16, 5, 4}),
      [=](Walk& walk, const Slot& x) {
        const Slot y = conv.forward(walk, x);
        dropout.apply(walk, y);
        return y;
      },
      [=](Walk& walk, const Slot& dy, const Slot& x) {
        dropout.backward(walk, dy);
        return conv.backward(walk, dy, x);
      });
  expect_right(bench);
}

void set_block(LayerBench& bench,
               const ImageSize& in,
               const std::shared_ptr<Block>& block) {
  bench.set(
      image(in),
      [=](Walk& walk, const Slot& x) { return block->forward(walk, x); },
      [=](Walk& walk, const Slot& dy, const Slot&, const Slot&) {
        return gathered(walk, block->backward(walk, {dy}));
      });
}

struct BlockCase {
  std::string name;
  BlockShape shape;  // applied to (16, 6, 5)
};
const BlockCase kBlockCases[] = {
    {"BasicIdentity", {.outer = 16}},
    {"BasicWider", {.outer = 32}},
    {"BasicStride2", {.outer = 32, .stride = 2}},
    {"BottleneckIdentity",
     {.kind = BlockShape::Kind::kBottleneck, .inner = 16, .outer = 16}},
    {"BottleneckStride2",
     {.kind = BlockShape::Kind::kBottleneck,
      .inner = 32,
      .outer = 64,
      .stride = 2}},
    {"BasicProjected", {.outer = 16, .is_projected = true}},
    {"BasicProjectionNormed",
     {.outer = 32, .stride = 2, .is_projection_normed = true}},
    {"BottleneckOfGluon",
     {.kind = BlockShape::Kind::kBottleneck,
      .inner = 16,
      .outer = 64,
      .stride = 2,
      .is_first_strided = true,
      .has_biases = true}},
};

// With random signs before the ReLUs, and with whole channels of equal sign.
template <typename BlockType, typename... Args>
void expect_block_right(Layout layout, const BlockShape& shape, Args... args) {
  LayerBench bench(layout, kSamples);
  Registrar registrar = bench.registrar();
  set_block(bench, {16, 6, 5},
            std::make_shared<BlockType>(registrar, "block", ImageSize{16, 6, 5},
                                        shape, args...));
  expect_right(bench, kKinkTolerance, 1);
  bench.keep_relus_off_kinks();
  expect_right(bench);
}

TEST_P(Layers, PostActivationBlocks) {
  for (const BlockCase& block_case : kBlockCases) {
    SCOPED_TRACE(block_case.name);
    expect_block_right<PostActivationBlock>(GetParam(), block_case.shape);
  }
}

TEST_P(Layers, PreActivationBlocks) {
  for (const BlockCase& block_case : kBlockCases) {
    SCOPED_TRACE(block_case.name);
    expect_block_right<PreActivationBlock>(GetParam(), block_case.shape, 1);
  }
}

// Dropout is between the convolutions for every kind of shortcut.
TEST_P(Layers, PreActivationBlocksWithDropout) {
  for (BlockShape shape :
       {BlockShape{.outer = 32},
        {.kind = BlockShape::Kind::kBottleneck, .inner = 32, .outer = 64}}) {
    shape.dropout = 0.3f;
    expect_block_right<PreActivationBlock>(GetParam(), shape, 1);
  }
}

// The check is no rubber stamp: gradients that are wrong in the ways in which
// backward code goes wrong are refused.
TEST(GradientCheck, RefusesWrongGradients) {
  LayerBench bench(Layout::kNhwc, kSamples);
  Registrar registrar = bench.registrar();
  set_block(
      bench, {16, 6, 5},
      std::make_shared<PostActivationBlock>(
          registrar, "block", ImageSize{16, 6, 5}, BlockShape{.outer = 16}));
  bench.keep_relus_off_kinks();
  bench.backward();
  const auto objective = [&] { return bench.objective(); };
  const ParameterEntry& weight = bench.table()[0];
  const std::span<float> gradient = bench.gradient(weight);
  const auto error = [&] {
    return directional_error(bench.values(weight), gradient, objective);
  };
  ASSERT_LT(error(), kTolerance);
  for (float& element : gradient) element *= 1.02f;  // a scale slightly off
  EXPECT_GT(error(), kTolerance);
  for (float& element : gradient) element /= 1.02f;
  std::ranges::fill(gradient.subspan(0, 9), 0.f);  // a filter plane forgotten
  EXPECT_GT(error(), kTolerance);

  // dx without the shortcut's part.
  std::vector<float> dx(bench.dx().begin(), bench.dx().end());
  for (size_t i = 0; i < dx.size(); i += 2) dx[i] *= 0.9f;
  EXPECT_GT(directional_error(bench.x(), dx, objective), kTolerance);
}

}  // namespace
}  // namespace syncopate
