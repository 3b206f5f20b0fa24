// The networks' published parameter counts, names and refusals. Only tables are
// built, so the largest networks need no memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "keys/key.h"
#include "models/registry.h"

namespace syncopate {
namespace {

const ImageSpec kCifar10{3, 32, 32, 10};
const ImageSpec kCifar100{3, 32, 32, 100};
const ImageSpec kImagenet{3, 224, 224, 1000};

struct Count {
  std::string name;
  ModelOptions options;
  SampleSpec spec;
  int64_t parameters;
  int64_t tensors;  // 0: not published
};

const QuestionSpec kQuestions{30522, 384};

// The networks of He et al. and of Gluon, for 224 x 224.
ModelOptions imagenet(int64_t depth, int64_t version = 1) {
  return {.depth = depth, .stem = StemForm::kImagenet, .version = version};
}
ModelOptions gluon(int64_t depth, int64_t version = 1) {
  ModelOptions options = imagenet(depth, version);
  options.variant = ResNetVariant::kGluon;
  return options;
}
ModelOptions wrn(int64_t depth,
                 int64_t width,
                 BlockForm form = BlockForm::kPost) {
  return {.family = "wrn", .depth = depth, .width = width, .form = form};
}
const ModelOptions kWrn502{.family = "wrn",
                           .depth = 50,
                           .width = 2,
                           .stem = StemForm::kImagenet};

const Count kCounts[] = {
    {"logistic", {.family = "logistic"}, kCifar10, 30730, 2},
    // CIFAR forms; CHOCO-SGD's projections, DS-Sync's published counts.
    {"resnet20", {.depth = 20}, kCifar10, 272474, 65},
    {"wrn-26-10", wrn(26, 10), kCifar10, 36481434, 86},
    {"wrn-26-10/100", wrn(26, 10), kCifar100, 36539124, 86},
    // Zagoruyko & Komodakis 2016.
    {"wrn-28-10 pre", wrn(28, 10, BlockForm::kPre), kCifar10, 36479194, 0},
    {"wrn-16-4 pre", wrn(16, 4, BlockForm::kPre), kCifar10, 2748890, 0},
    // torchvision.
    {"resnet18", imagenet(18), kImagenet, 11689512, 62},
    {"resnet34", imagenet(34), kImagenet, 21797672, 110},
    {"resnet50", imagenet(50), kImagenet, 25557032, 161},
    {"resnet101", imagenet(101), kImagenet, 44549160, 314},
    {"wrn-50-2", kWrn502, kImagenet, 68883240, 161},
    // From version 1 by hand: 26,560 BatchNorm channels become 22,720.
    {"resnet50 v2", imagenet(50, 2), kImagenet, 25557032 - 2 * (26560 - 22720),
     0},
    // Stem 3x3 instead of 7x7, ten classes instead of a thousand.
    {"resnet50 cifar stem",
     {.depth = 50},
     kCifar10,
     25557032 - 3 * 64 * (49 - 9) - 990 * 2049,
     161},
    // Gluon's model zoo as its summary counts: these and the running
    // statistics, 2 per BatchNorm channel, and of version 2 also the 4 * 3
    // values of the images' BatchNorm (gamma and beta are fixed). Channels:
    // version 1 4,800 and 26,560, as He's; version 2, with the stem's 64, 3,968
    // and 22,784.
    {"gluon resnet18_v1", gluon(18), kImagenet, 11699112 - 2 * 4800, 62},
    {"gluon resnet50_v1", gluon(50), kImagenet, 25629032 - 2 * 26560, 161 + 32},
    {"gluon resnet18_v2", gluon(18, 2), kImagenet, 11695796 - 2 * 3968 - 12, 0},
    {"gluon resnet50_v2", gluon(50, 2), kImagenet, 25595060 - 2 * 22784 - 12,
     0},
    // The same of version 1 from torchvision's by hand: the stride moves, and
    // each block has biases of its inner and its outer width.
    {"gluon resnet50_v1 by its biases", gluon(50), kImagenet,
     25557032 + 3 * (64 + 256) + 4 * (128 + 512) + 6 * (256 + 1024) +
         3 * (512 + 2048),
     0},
    // Tensor2Tensor's resnet_cifar_32, by hand: stem with BatchNorm; of each
    // group the BatchNorms, the projection with its BatchNorm, two 3x3; the
    // same four times without projection; classifier.
    {"t2t resnet_cifar_32",
     {.depth = 32, .variant = ResNetVariant::kT2t},
     kCifar10,
     (147 * 16 + 32) + (32 + 512 + 64 + 4608 + 64 + 9216) + 4 * (128 + 18432) +
         (64 + 2048 + 128 + 18432 + 128 + 36864) + 4 * (256 + 73728) +
         (128 + 8192 + 256 + 73728 + 256 + 147456) + 4 * (512 + 294912) + 1290,
     0},
    // resnet_50 with is_cifar: He's without its stem, its fourth stage and its
    // classifier, with the 7x7 stem.
    {"t2t resnet_50",
     {.depth = 50, .variant = ResNetVariant::kT2t},
     kCifar100,
     (147 * 64 + 128) + (64 * 64 + 9 * 64 * 64 + 2 * 64 * 256 + 256 + 2 * 512) +
         2 * (2 * 256 * 64 + 9 * 64 * 64 + 256 + 512) +
         (256 * 128 + 9 * 128 * 128 + 128 * 512 + 256 * 512 + 512 + 2 * 1024) +
         3 * (2 * 512 * 128 + 9 * 128 * 128 + 512 + 1024) +
         (512 * 256 + 9 * 256 * 256 + 256 * 1024 + 512 * 1024 + 1024 +
          2 * 2048) +
         5 * (2 * 1024 * 256 + 9 * 256 * 256 + 1024 + 2048) + 102500,
     0},
    // Without the pooler, with the span head, as Hugging Face counts them.
    {"bert base", {.family = "bert"}, kQuestions, 108893186, 199},
    {"bert large",
     {.family = "bert", .layers = 24, .hidden = 1024, .heads = 16},
     kQuestions,
     334094338,
     391},
    // 39 fields of 100 rows: tables, bias, 390-400-400-400-1 with BatchNorm.
    {"deepfm",
     {.family = "deepfm"},
     ClickSpec{std::vector<int64_t>(39, 100)},
     3900 * 11 + 1 + 391 * 400 + 2 * 401 * 400 + 3 * 800 + 401,
     17},
};

TEST(Registry, PublishedParameterCounts) {
  for (const Count& count : kCounts) {
    const auto model = make_model(count.options, count.spec, DType::kF32);
    EXPECT_EQ(model->parameters().num_elems(), count.parameters) << count.name;
    if (count.tensors > 0) {
      EXPECT_EQ(model->parameters().num_tensors(), count.tensors) << count.name;
    }
  }
}

// Multiply-adds: ResNet-50 as published, 4.09 G (torchvision); ResNet-20 by
// its table: stem, 6 + 5 + 5 equal convolutions, two that halve, two
// projections, classifier.
TEST(Registry, MultiplyAdds) {
  const auto resnet50 = make_model(imagenet(50), kImagenet, DType::kF32);
  EXPECT_NEAR(resnet50->forward_macs(), 4.09e9, 0.005e9);
  const auto resnet20 = make_model({.depth = 20}, kCifar10, DType::kF32);
  const double equal = 16 * 16 * 9 * 1024;
  EXPECT_EQ(
      resnet20->forward_macs(),
      3 * 16 * 9 * 1024 + 16 * equal + 2 * equal / 2 + 2 * equal / 2 / 9 + 640);
}

int64_t parameters_of(const ModelOptions& options) {
  return make_model(options, kCifar10, DType::kF32)->parameters().num_elems();
}

// Figures in print: 1.86 M and 8.65 M.
TEST(Registry, Tensor2TensorSizes) {
  EXPECT_EQ(parameters_of({.depth = 32, .variant = ResNetVariant::kT2t}),
            1857722);
  EXPECT_EQ(parameters_of({.depth = 50, .variant = ResNetVariant::kT2t}),
            8645796 - 92250);
}

// The stages and widths that a depth stands for.
TEST(Registry, StagesAndWidthsStandInsteadOfADepth) {
  const auto expect_alike = [](const ModelOptions& by_depth,
                               const ModelOptions& spelt_out) {
    const auto one = make_model(by_depth, kCifar10, DType::kF32);
    const auto other = make_model(spelt_out, kCifar10, DType::kF32);
    ASSERT_EQ(one->parameters().num_tensors(),
              other->parameters().num_tensors());
    for (int i = 0; i < one->parameters().num_tensors(); ++i) {
      EXPECT_EQ(one->parameters()[i].name, other->parameters()[i].name);
      EXPECT_EQ(one->parameters()[i].shape, other->parameters()[i].shape);
    }
    EXPECT_EQ(one->forward_macs(), other->forward_macs());
  };
  expect_alike({.depth = 20}, {.stages = {3, 3, 3}, .widths = {16, 32, 64}});
  expect_alike(imagenet(50), {.stem = StemForm::kImagenet,
                              .block = ResNetBlock::kBottleneck,
                              .stages = {3, 4, 6, 3},
                              .widths = {64, 128, 256, 512}});
  expect_alike({.depth = 32, .variant = ResNetVariant::kT2t},
               {.variant = ResNetVariant::kT2t,
                .stages = {5, 5, 5},
                .widths = {32, 64, 128},
                .stem_width = 16});
  expect_alike({.depth = 50, .variant = ResNetVariant::kT2t},
               {.block = ResNetBlock::kBottleneck,
                .variant = ResNetVariant::kT2t,
                .stages = {3, 4, 6},
                .widths = {64, 128, 256}});
  expect_alike({.depth = 20, .widths = {8, 24, 40}},
               {.stages = {3, 3, 3}, .widths = {8, 24, 40}});
  EXPECT_EQ(parameters_of({.depth = 8, .stem_width = 24}) -
                parameters_of({.depth = 8}),
            // Stem and its BatchNorm, the first convolution, a projection.
            8 * 27 + 2 * 8 + 8 * 16 * 9 + 24 * 16 + 2 * 16);
}

TEST(Registry, NamesRolesAndOrder) {
  const auto model = make_model({.depth = 20}, kCifar10, DType::kF32);
  const auto& entries = model->parameters().entries();
  EXPECT_EQ(entries[0].name, "stem.conv.weight");
  EXPECT_EQ(entries[0].shape, Shape({16, 3, 3, 3}));
  EXPECT_EQ(entries[0].role, Role::kWeight);
  EXPECT_EQ(entries[1].name, "stem.bn.weight");
  EXPECT_EQ(entries[1].role, Role::kBatchNorm);
  EXPECT_EQ(entries[3].name, "stage1.block0.conv1.weight");
  EXPECT_EQ(entries.back().name, "fc.bias");
  EXPECT_EQ(entries.back().role, Role::kBias);
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(
        entries, [&](const ParameterEntry& e) { return e.name == name; });
  };
  EXPECT_TRUE(has("stage2.block0.shortcut.conv.weight"));
  EXPECT_FALSE(has("stage1.block0.shortcut.conv.weight"));
  // Mean and variance for the stem, two convolutions per block and projections.
  EXPECT_EQ(model->buffers().num_elems(), 2 * 7 * 16 + 2 * 7 * (32 + 64));
  EXPECT_EQ(model->buffers().entries()[0].name, "stem.bn.running_mean");
}

TEST(Registry, DepthFromWhichBottlenecksAreTaken) {
  const auto blocks = [](const ModelOptions& options) {
    const auto model = make_model(options, kCifar10, DType::kF32);
    return std::ranges::any_of(model->parameters().entries(),
                               [](const ParameterEntry& e) {
                                 return e.name.ends_with("conv3.weight");
                               })
               ? "bottleneck"
               : "basic";
  };
  EXPECT_STREQ(blocks({.depth = 38}), "basic");
  EXPECT_STREQ(blocks({.depth = 44}), "bottleneck");
  EXPECT_STREQ(blocks({.depth = 110, .block = ResNetBlock::kBasic}), "basic");
  EXPECT_STREQ(blocks({.depth = 20, .block = ResNetBlock::kBottleneck}),
               "bottleneck");
}

std::string refusal(const ModelOptions& options,
                    const SampleSpec& spec = kCifar10) {
  try {
    make_model(options, spec, DType::kF32);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST(Registry, RefusesWhatHasNoNetwork) {
  EXPECT_EQ(refusal({.depth = 21}),
            "model.depth: 21: no resnet of that depth with stem cifar (near: "
            "20, 26)");
  EXPECT_EQ(refusal(imagenet(20)),
            "model.depth: 20: no resnet of that depth with stem imagenet "
            "(near: 18, 34)");
  EXPECT_EQ(refusal({.family = "wrn", .depth = 27, .width = 10}),
            "model.depth: 27: no wrn of that depth with stem cifar, form post "
            "(near: 26, 32)");
  EXPECT_EQ(refusal({.family = "wrn", .depth = -3, .form = BlockForm::kPre}),
            "model.depth: -3: no wrn of that depth with stem cifar, form pre "
            "(near: 10)");
  EXPECT_EQ(
      refusal({.family = "rezznet"}),
      fmt::format("model.family: rezznet: not one of {} (did you mean "
                  "resnet?)",
                  join(names_of(model_table(), &ModelInfo::family), ", ")));
  EXPECT_EQ(refusal({.family = "bert"}),
            "model.family: bert is a network for questions, and data.kind is "
            "of another kind of samples");
  EXPECT_EQ(refusal({.depth = 50, .block = ResNetBlock::kBasic}),
            "model.block: basic: resnet of depth 50 is built from bottleneck "
            "blocks (block = auto)");
  EXPECT_EQ(refusal({.depth = 20, .variant = ResNetVariant::kGluon}),
            "model.depth: 20: no resnet of that depth with stem cifar (near: "
            "18, 34)");
  EXPECT_EQ(refusal({.stages = {2, 2}, .widths = {16}}),
            "model.widths: 1 of them, expected one for each of 2 stages");
  EXPECT_EQ(refusal({.depth = 20, .widths = {16, 32}}),
            "model.widths: 2 of them, expected one for each of 3 stages");
  EXPECT_EQ(refusal({.stages = {2, 1.5}, .widths = {16, 32}}),
            "model.stages: 1.5: expected whole numbers from 1 to 65536");
  const SampleSpec clicks = ClickSpec{{3, 4}};
  for (const double width : {32.9, 0.5, 65537.0, 9e18, 1e300})
    EXPECT_EQ(refusal({.family = "deepfm", .mlp = {8, width}}, clicks),
              fmt::format("model.mlp: {}: expected whole numbers from 1 to "
                          "65536",
                          width));
  EXPECT_EQ(refusal({.family = "deepfm", .mlp = {65536}}, clicks), "accepted");
  EXPECT_EQ(refusal({.version = 3}), "model.version: 3: not one of 1, 2");
  EXPECT_EQ(refusal({.family = "wrn", .depth = 26, .dropout = 0.3}),
            "model.dropout: 0.3: the post-activation wrn has no dropout (form "
            "= pre has)");
  EXPECT_EQ(refusal({.family = "wrn", .depth = 26, .width = 0}),
            "model.width: 0: must lie in 1 .. 64");
  EXPECT_NE(refusal({.depth = 20}, ImageSpec{3, 32, 32, 1}), "accepted");
}

TEST(Registry, TableListsEveryFamilyOnce) {
  for (const ModelInfo& info : model_table()) {
    ModelOptions options;
    options.family = info.family;
    options.depth = 20;
    // Exactly one kind of samples is the network's.
    const std::vector<SampleSpec> kinds = {kCifar10, kQuestions,
                                           ClickSpec{{3, 4}}};
    EXPECT_EQ(std::ranges::count_if(kinds,
                                    [&](const SampleSpec& spec) {
                                      return refusal(options, spec) ==
                                             "accepted";
                                    }),
              1)
        << info.family;
  }
}

}  // namespace
}  // namespace syncopate
