// One training step and one evaluation against values recorded from PyTorch in
// double precision (tests/reference/make_model_fixtures.py).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "gradient/model_bench.h"
#include "support/fixtures.h"

namespace syncopate {
namespace {

// fp32 against double through up to 20 layers and back; 3e-6 holds with
// oneDNN 2.6 on Zen 4, the rest is room for other kernels and orders of sums.
constexpr double kTolerance = 3e-5;
// Scales and shifts that the next BatchNorm cancels: their gradients are small
// differences of terms of 0.1 to 10 and carry the rounding of those terms.
// Every other bound is relative to the tensor's own norm.
constexpr double kLeastGradient = 1e-2;
constexpr std::pair<std::string_view, std::string_view> kCancelled[] = {
    {"t2t-basic", "stage1.block0.shortcut.bn.bias"},
    {"t2t-basic", "stage2.block0.shortcut.bn.bias"},
    {"gluon-v2", "stem.bn.weight"},
    {"gluon-v2", "stem.bn.bias"}};

double least_gradient(const std::string& network, const std::string& tensor) {
  for (const auto& [of, name] : kCancelled)
    if (of == network && name == tensor) return kLeastGradient;
  return 0;
}

// Sum, Euclidean norm, and three elements of a tensor.
struct Summary {
  double sum, norm, first, middle, last;
};

Summary summary_of(std::span<const float> values) {
  Summary s{0, 0, values.front(), values[values.size() / 2], values.back()};
  for (const float value : values) {
    s.sum += value;
    s.norm += double{value} * value;
  }
  s.norm = std::sqrt(s.norm);
  return s;
}

void expect_near(const Summary& got,
                 const Summary& want,
                 int64_t elems,
                 const std::string& name,
                 double least_size = 0) {
  const double size = std::max(want.norm, least_size);
  EXPECT_NEAR(got.norm, want.norm, kTolerance * size) << name;
  // Errors of the elements add up like the elements.
  EXPECT_NEAR(got.sum, want.sum, kTolerance * size * std::sqrt(double(elems)))
      << name;
  for (const auto member : {&Summary::first, &Summary::middle, &Summary::last})
    EXPECT_NEAR(got.*member, want.*member, kTolerance * size) << name;
}

struct Recorded {
  int64_t N, H, W;
  double loss;
  std::vector<Summary> gradients, buffers, scores;
};

std::map<std::string, Recorded> read_fixtures() {
  std::ifstream file(fixture_path("models.txt"));
  std::map<std::string, Recorded> networks;
  Recorded* now = nullptr;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    std::string kind;
    words >> kind;
    if (kind == "network") {
      std::string name;
      words >> name;
      now = &networks[name];
      words >> now->N >> now->H >> now->W;
    } else if (kind == "loss") {
      words >> now->loss;
    } else {
      Summary s;
      words >> s.sum >> s.norm >> s.first >> s.middle >> s.last;
      (kind == "gradient" ? now->gradients
       : kind == "buffer" ? now->buffers
                          : now->scores)
          .push_back(s);
    }
    EXPECT_FALSE(words.fail()) << text;
  }
  return networks;
}

std::vector<float> make_parameters(const ParameterTable& table) {
  std::vector<float> values(table.num_elems());
  for (int t = 0; t < table.num_tensors(); ++t) {
    const ParameterEntry& entry = table[t];
    const Shape& shape = entry.shape;
    double scale = 0.5, shift = 0;
    if (shape.rank() == 4)
      scale = std::sqrt(24.0 / double(shape[0] * shape[2] * shape[3]));
    else if (shape.rank() == 2)
      scale = 2 / std::sqrt(double(shape[1]));
    else if (entry.role == Role::kBatchNorm && entry.name.ends_with(".weight"))
      shift = 1;
    for (int64_t i = 0; i < entry.elems(); ++i)
      values[entry.offset + i] =
          static_cast<float>(shift + scale * made_uniform(t + 1, i));
  }
  return values;
}

void expect_recorded(const std::string& name, const ModelOptions& options) {
  static const std::map<std::string, Recorded> fixtures = read_fixtures();
  ASSERT_TRUE(fixtures.contains(name));
  const Recorded& want = fixtures.at(name);
  const ImageSpec spec{3, want.H, want.W, 10};
  ModelBench bench(options, spec, want.N);
  const ParameterTable& table = bench.model().parameters();
  ASSERT_EQ(table.num_tensors(), std::ssize(want.gradients));
  bench.parameters_ = make_parameters(table);
  for (int64_t n = 0; n < want.N; ++n) {
    bench.labels_[n] = static_cast<int32_t>((3 * n + 1) % 10);
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t h = 0; h < want.H; ++h)
        for (int64_t w = 0; w < want.W; ++w)
          bench.images_[((n * want.H + h) * want.W + w) * 3 + c] =
              static_cast<float>(
                  4 * made_uniform(0, ((n * 3 + c) * want.H + h) * want.W + w));
  }

  EXPECT_NEAR(bench.step(), want.loss, kTolerance * want.loss);
  for (int t = 0; t < table.num_tensors(); ++t) {
    const ParameterEntry& entry = table[t];
    expect_near(summary_of(bench.gradient(entry)), want.gradients[t],
                entry.elems(), entry.name, least_gradient(name, entry.name));
  }
  const ParameterTable& buffers = bench.model().buffers();
  ASSERT_EQ(buffers.num_tensors(), std::ssize(want.buffers));
  for (int t = 0; t < buffers.num_tensors(); ++t) {
    const ParameterEntry& entry = buffers[t];
    expect_near(
        summary_of(
            std::span(bench.buffers_).subspan(entry.offset, entry.elems())),
        want.buffers[t], entry.elems(), entry.name);
  }
  const std::vector<float> scores = bench.scores(bench.batch());
  expect_near(summary_of(scores), want.scores.at(0), std::ssize(scores),
              "scores");
}

ModelOptions small_gluon(int64_t version) {
  return {.stem = StemForm::kImagenet,
          .block = ResNetBlock::kBottleneck,
          .version = version,
          .variant = ResNetVariant::kGluon,
          .stages = {2, 1, 2},
          .widths = {8, 16, 32}};
}

struct Case {
  std::string name, recorded;
  ModelOptions options;
};
const Case kCases[] = {
    {"Resnet20", "resnet20", {.depth = 20}},
    {"Resnet8Bottleneck",
     "resnet8-bottleneck",
     {.depth = 8, .block = ResNetBlock::kBottleneck}},
    {"Resnet8PreActivation", "resnet8-v2", {.depth = 8, .version = 2}},
    {"Resnet18WithImagenetStem",
     "resnet18-imagenet",
     {.depth = 18, .stem = StemForm::kImagenet}},
    {"WrnPost", "wrn8x2-post", {.family = "wrn", .depth = 8, .width = 2}},
    {"WrnPre",
     "wrn10x2-pre",
     {.family = "wrn", .depth = 10, .width = 2, .form = BlockForm::kPre}},
    {"Tensor2TensorBasic",
     "t2t-basic",
     {.variant = ResNetVariant::kT2t,
      .stages = {2, 1, 2},
      .widths = {16, 32, 64},
      .stem_width = 8}},
    {"Tensor2TensorBottleneck",
     "t2t-bottleneck",
     {.block = ResNetBlock::kBottleneck,
      .variant = ResNetVariant::kT2t,
      .stages = {2, 1, 2},
      .widths = {8, 16, 32}}},
    // With biases that are not 0: they count in the evaluation, through the
    // running means alone.
    {"GluonVersion1", "gluon-v1", small_gluon(1)},
    {"GluonVersion2", "gluon-v2", small_gluon(2)},
};

class Fixtures : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(,
                         Fixtures,
                         testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(Fixtures, StepAndEvaluation) {
  expect_recorded(GetParam().recorded, GetParam().options);
}

}  // namespace
}  // namespace syncopate
