// The walk: planning and running take the same tensors, passes keep their
// contract, and the peak of a block's plan is the sum of its tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "layers/dropout.h"
#include "layers/post_activation_block.h"
#include "layers/pre_activation_block.h"
#include "layers/walk.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

struct Tables {
  ParameterTable parameters, buffers;
  Registrar registrar() { return {parameters, buffers}; }
};

class WalkTest : public testing::Test {
 protected:
  WalkRun run() {
    return {.context = on_.context,
            .parameters = {},
            .gradients = {},
            .buffers = {},
            .images = {}};
  }
  test::TestContext on_{1};
  Arena arena_;
};

TEST_F(WalkTest, RunningTakesWhatWasPlannedForFewerSamples) {
  WalkPlan plan{DType::kF32, Layout::kNhwc, 4, {}};
  Walk planning(arena_, plan, Pass::kTrain);
  EXPECT_FALSE(planning.is_running());
  const Slot a = planning.take_image({16, 2, 2});
  const Slot b = planning.take(DType::kF32, {4, 16});
  planning.give_back(a);
  const Slot c = planning.take_image({16, 2, 2});  // the place of a
  EXPECT_EQ(c.offset_bytes, a.offset_bytes);
  arena_.commit(on_.device);

  const WalkRun settings = run();
  Walk running(arena_, plan, Pass::kTrain, 3, settings);
  const Slot x = running.take_image({16, 2, 2});
  EXPECT_EQ(x.shape, Shape({3, 16, 2, 2}));
  EXPECT_EQ(x.offset_bytes, a.offset_bytes);
  EXPECT_EQ(running.take(DType::kF32, {3, 16}).offset_bytes, b.offset_bytes);
  running.give_back(x);
  EXPECT_EQ(running.take_image({16, 2, 2}).offset_bytes, c.offset_bytes);
  EXPECT_THROW(running.take(DType::kF32, {1}), Error);  // more than planned
}

TEST_F(WalkTest, RefusesAnotherWalkThanPlanned) {
  WalkPlan plan{DType::kF32, Layout::kNhwc, 4, {}};
  Walk planning(arena_, plan, Pass::kTrain);
  planning.take(DType::kF32, {4, 16});
  arena_.commit(on_.device);
  const WalkRun settings = run();
  EXPECT_THROW(Walk(arena_, plan, Pass::kTrain, 5, settings), Error);
  Walk other_type(arena_, plan, Pass::kTrain, 4, settings);
  EXPECT_THROW(other_type.take(DType::kBf16, {4, 16}), Error);
  Walk larger(arena_, plan, Pass::kTrain, 4, settings);
  EXPECT_THROW(larger.take(DType::kF32, {4, 17}), Error);
}

TEST_F(WalkTest, DropsOnlyWhereNothingIsKept) {
  for (const Pass pass : {Pass::kTrain, Pass::kEvaluate, Pass::kStatistics}) {
    Arena arena;
    WalkPlan plan{DType::kF32, Layout::kNhwc, 1, {}};
    Walk walk(arena, plan, pass);
    const Slot a = walk.take(DType::kF32, {64});
    walk.drop(a);
    const Slot b = walk.take(DType::kF32, {64});
    EXPECT_EQ(b.offset_bytes == a.offset_bytes, pass != Pass::kTrain);
  }
}

TEST_F(WalkTest, ImagesAreTheCallersMemory) {
  WalkPlan plan{DType::kF32, Layout::kNhwc, 2, {}};
  Walk planning(arena_, plan, Pass::kEvaluate);
  planning.drop(planning.images({3, 4, 4}));  // no effect
  EXPECT_EQ(arena_.peak_bytes(), 0);
  planning.take(DType::kF32, {1});
  arena_.commit(on_.device);
  std::vector<float> pixels(3 * 4 * 4);
  WalkRun settings = run();
  settings.images = make_const_tensor(pixels.data(), DType::kF32, {1, 3, 4, 4},
                                      Layout::kNhwc);
  const Walk running(arena_, plan, Pass::kEvaluate, 1, settings);
  const ConstTensor images = running.in(running.images({3, 4, 4}));
  EXPECT_EQ(images.data, pixels.data());
  EXPECT_EQ(images.shape, Shape({1, 3, 4, 4}));
}

TEST_F(WalkTest, DropoutMasksDifferByLayerSeedAndCall) {
  WalkPlan plan{DType::kF32, Layout::kNhwc, 1, {}};
  Walk planning(arena_, plan, Pass::kTrain);
  planning.take(DType::kF32, {1, 4000});
  arena_.commit(on_.device);
  const auto masked = [&](uint64_t layer, uint64_t seed, uint64_t call,
                          Pass pass) {
    WalkRun settings = run();
    const DropoutKey key{seed, call};
    settings.dropout_key = &key;
    Walk walk(arena_, plan, pass, 1, settings);
    const Slot x = walk.take(DType::kF32, {1, 4000});
    std::fill_n(walk.out(x).f32(), 4000, 3.f);
    Dropout(0.25f, layer).apply(walk, x);
    const float* values = walk.in(x).f32();
    return std::vector<float>(values, values + 4000);
  };
  const std::vector<float> first = masked(0, 1, 1, Pass::kTrain);
  EXPECT_EQ(first, masked(0, 1, 1, Pass::kTrain));
  EXPECT_NE(first, masked(1, 1, 1, Pass::kTrain));
  EXPECT_NE(first, masked(0, 2, 1, Pass::kTrain));
  EXPECT_NE(first, masked(0, 1, 2, Pass::kTrain));
  EXPECT_EQ(masked(0, 1, 1, Pass::kEvaluate), std::vector<float>(4000, 3.f));
  // Zero, or 3 / (1 - p); 4000 draws of 1/4 have a deviation of 27.
  const int64_t zeros = std::ranges::count(first, 0.f);
  EXPECT_NEAR(double(zeros), 1000, 5 * 27);
  EXPECT_EQ(std::ranges::count(first, 3.f / 0.75f), 4000 - zeros);
}

// One tensor of N (16, 8, 8) in bytes, without rounding to 64.
constexpr ImageSize kImage{16, 8, 8};
constexpr int64_t kSamples = 4;
constexpr int64_t kTensor = kSamples * 16 * 8 * 8 * 4;

// Peak of `block` in units of kTensor, its input and dy included.
template <typename BlockType, typename... Args>
double peak(Pass pass, const BlockShape& shape, Args... args) {
  Tables tables;
  Registrar registrar = tables.registrar();
  BlockType block(registrar, "block", kImage, shape, args...);
  Arena arena;
  WalkPlan plan{DType::kF32, Layout::kNhwc, kSamples, {}};
  Walk walk(arena, plan, pass);
  const Slot x = walk.take_image(kImage);
  const Slot y = block.forward(walk, x);
  if (pass == Pass::kTrain) {
    const Slot dy = walk.take(y.dtype, y.shape, y.layout);
    walk.give_back(gathered(walk, block.backward(walk, {dy})));
  } else {
    walk.give_back(y);
  }
  walk.give_back(x);
  // All is back: a tensor as large as the peak fits without growing.
  const int64_t bytes = arena.peak_bytes();
  arena.take(DType::kU8, {bytes});
  EXPECT_EQ(arena.peak_bytes(), bytes);
  return static_cast<double>(bytes) / kTensor;
}

// Kept: x, two convolutions, two activations; then dy and dx of the last
// BatchNorm. The mean and deviation of channels are 0.1.
TEST(BlockMemory, PostActivation) {
  const BlockShape basic{.outer = 16};
  EXPECT_LT(peak<PostActivationBlock>(Pass::kTrain, basic), 7.1);
  EXPECT_LT(peak<PostActivationBlock>(Pass::kEvaluate, basic), 3.1);
}

// Kept: x, a, convolution, a, y; y goes before the first gradient is taken.
TEST(BlockMemory, PreActivation) {
  const BlockShape basic{.outer = 16};
  EXPECT_LT((peak<PreActivationBlock, int64_t>(Pass::kTrain, basic, 0)), 6.1);
  EXPECT_LT((peak<PreActivationBlock, int64_t>(Pass::kEvaluate, basic, 0)),
            4.1);
}

TEST(BlockShapes, OutputsAndMultiplyAdds) {
  Tables tables;
  Registrar registrar = tables.registrar();
  const PostActivationBlock block(registrar, "block", {16, 7, 6},
                                  {.kind = BlockShape::Kind::kBottleneck,
                                   .inner = 8,
                                   .outer = 32,
                                   .stride = 2});
  EXPECT_EQ(block.out(), (ImageSize{32, 4, 3}));
  // 1x1 on the whole image, 3x3 with stride 2, 1x1, projection.
  EXPECT_EQ(block.macs(),
            16 * 8 * 42 + 8 * 8 * 9 * 12 + 8 * 32 * 12 + 16 * 32 * 12);
  EXPECT_EQ(tables.parameters[0].name, "block.conv1.weight");
  EXPECT_EQ(tables.parameters.entries().back().name, "block.shortcut.bn.bias");
}

}  // namespace
}  // namespace syncopate
