// Files of weights of other programs: names and shapes of every network as
// recorded from torchvision, Hugging Face and PyTorch, what a network computes
// with such a file, and that it writes the same file again
// (tests/reference/make_export_fixtures.py).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "gradient/bert_bench.h"
#include "gradient/deepfm_bench.h"
#include "gradient/model_bench.h"
#include "support/fixtures.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

// fp32 against double through up to 50 layers, by the norm of the outputs.
constexpr double kTolerance = 1e-4;
constexpr std::string_view kCounter = "num_batches_tracked";
constexpr int64_t kBatches = 7;
const QuestionSpec kQuestions{50, 18};
const ClickSpec kClicks{{3, 7, 4, 11, 2}};

struct Recorded {
  std::map<std::string, std::vector<int64_t>> tensors;
  std::vector<double> outputs;
};

const Recorded& recorded(const std::string& network) {
  static const auto all = [] {
    std::map<std::string, Recorded> networks;
    std::ifstream file(fixture_path("export.txt"));
    Recorded* now = nullptr;
    for (std::string text; std::getline(file, text);) {
      std::istringstream words(text);
      std::string kind, name;
      words >> kind;
      if (kind == "network") {
        words >> name;
        now = &networks[name];
      } else if (kind == "tensor") {
        words >> name;
        auto& shape = now->tensors[name];
        for (int64_t dim; words >> dim;) shape.push_back(dim);
      } else {
        for (double value; words >> value;) now->outputs.push_back(value);
      }
    }
    return networks;
  }();
  return all.at(network);
}

// The weights of the script's formula.
std::vector<float> filled(const std::string& name,
                          uint64_t number,
                          const std::vector<int64_t>& shape) {
  int64_t elems = 1;
  for (const int64_t dim : shape) elems *= dim;
  double scale = 0.5, shift = 0;
  if (shape.size() == 4)
    scale = std::sqrt(24 / double(elems / shape[0]));
  else if (shape.size() == 2)
    scale = 2 / std::sqrt(double(shape[1]));
  else if (name.ends_with("weight") || name.ends_with("running_var"))
    shift = 1;
  std::vector<float> values(elems);
  for (int64_t i = 0; i < elems; ++i)
    values[i] = static_cast<float>(shift + scale * made_uniform(number, i));
  return values;
}

// A file as PyTorch would write it.
void write_recorded(const fs::path& path, const Recorded& network) {
  std::vector<std::vector<float>> values;
  for (const auto& [name, shape] : network.tensors)
    if (!name.ends_with(kCounter))
      values.push_back(filled(name, values.size() + 1, shape));
  std::vector<SafeTensorValues> tensors;
  auto next = values.begin();
  for (const auto& [name, shape] : network.tensors) {
    if (name.ends_with(kCounter))
      tensors.push_back({name, shape, {}, std::span(&kBatches, 1)});
    else
      tensors.push_back({name, shape, *next++, {}});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
}

struct Case {
  std::string name, recorded;
  ModelOptions options;
  SampleSpec spec;
};

ImageSpec images(int64_t H, int64_t W) {
  return {3, H, W, 10};
}
const ImageSpec kLarge = images(40, 36), kSmall = images(8, 6);

ModelOptions imagenet(const std::string& family, int64_t depth) {
  return {.family = family,
          .depth = depth,
          .width = 2,
          .stem = StemForm::kImagenet};
}

const Case kCases[] = {
    {"Logistic", "logistic", {.family = "logistic"}, images(5, 4)},
    {"Resnet8", "resnet8", {.depth = 8}, kSmall},
    {"Resnet8Bottleneck",
     "resnet8-bottleneck",
     {.depth = 8, .block = ResNetBlock::kBottleneck},
     kSmall},
    {"WrnPost",
     "wrn8x2-post",
     {.family = "wrn", .depth = 8, .width = 2},
     kSmall},
    {"WrnPre",
     "wrn10x2-pre",
     {.family = "wrn", .depth = 10, .width = 2, .form = BlockForm::kPre},
     kSmall},
    {"Resnet18", "resnet18", imagenet("resnet", 18), kLarge},
    {"Resnet34", "resnet34", imagenet("resnet", 34), kLarge},
    {"Resnet50", "resnet50", imagenet("resnet", 50), kLarge},
    {"Resnet101", "resnet101", imagenet("resnet", 101), kLarge},
    {"Wrn50", "wide_resnet50_2", imagenet("wrn", 50), kLarge},
    {"Wrn101", "wide_resnet101_2", imagenet("wrn", 101), kLarge},
    {"Bert",
     "bert",
     {.family = "bert",
      .layers = 2,
      .hidden = 32,
      .heads = 4,
      .intermediate = 48,
      .positions = 20,
      .hidden_dropout = 0,
      .attention_dropout = 0},
     kQuestions},
    {"DeepFm",
     "deepfm",
     {.family = "deepfm", .embedding = 4, .mlp = {8, 6}, .mlp_dropout = 0},
     kClicks},
};

// What the started network computes on the script's inputs.
std::vector<float> outputs(NetworkBench& bench, const Model& started) {
  started.initialise(bench.parameters_, bench.buffers_, 1);
  return bench.scores(bench.batch());
}

std::vector<float> outputs_of(const Case& c, const Model& started) {
  if (c.recorded == "bert") {
    BertBench bench(c.options, kQuestions,
                    Questions::made({9, 17, 1, 6}, {0, 0, 0, 0, 0, 0, 0, 0},
                                    kQuestions.vocabulary));
    return outputs(bench, started);
  }
  if (c.recorded == "deepfm") {
    DeepFmBench bench(kClicks, {.embedding = 4, .mlp = {8, 6}, .dropout = 0},
                      5);
    return outputs(bench, started);
  }
  const auto& spec = std::get<ImageSpec>(c.spec);
  ModelBench bench(c.options, spec, 2);
  for (int64_t i = 0; i < std::ssize(bench.images_); ++i) {
    const int64_t channel = i % spec.C, pixel = i / spec.C;
    const int64_t image = pixel / (spec.H * spec.W);
    const int64_t place = (image * spec.C + channel) * spec.H * spec.W +
                          pixel % (spec.H * spec.W);
    bench.images_[i] = static_cast<float>(4 * made_uniform(0, place));
  }
  return outputs(bench, started);
}

class FileNamesOf : public testing::TestWithParam<Case> {
 protected:
  const Recorded& want_ = recorded(GetParam().recorded);
  ScratchFolder folder_;
  fs::path file_ = folder_ / "given.safetensors";

  std::unique_ptr<Model> started() const {
    write_recorded(file_, want_);
    ModelOptions options = GetParam().options;
    options.weights = file_.string();
    return make_model(options, GetParam().spec, DType::kF32);
  }
};
INSTANTIATE_TEST_SUITE_P(,
                         FileNamesOf,
                         testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(FileNamesOf, NamesAndShapesAreThoseOfTheOtherProgram) {
  const auto model =
      make_model(GetParam().options, GetParam().spec, DType::kF32);
  std::map<std::string, std::vector<int64_t>> mine;
  for (const auto& tensor :
       tensors_in_file(model_info(GetParam().options.family).names(),
                       model->parameters(), model->buffers()))
    EXPECT_TRUE(mine.emplace(tensor.name, tensor.shape).second) << tensor.name;
  EXPECT_EQ(mine, want_.tensors);
}

TEST_P(FileNamesOf, OutputsAreThoseOfTheOtherProgram) {
  if (want_.outputs.empty()) return;  // of names and shapes alone
  const std::vector<float> got = outputs_of(GetParam(), *started());
  ASSERT_EQ(got.size(), want_.outputs.size());
  double error = 0, square = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(got[i] - want_.outputs[i], 2);
    square += std::pow(want_.outputs[i], 2);
  }
  EXPECT_LT(std::sqrt(error), kTolerance * std::sqrt(square));
}

// Kept in the folder EXPORTED, for PyTorch to load: then also the large ones.
TEST_P(FileNamesOf, WhatIsReadIsWrittenToTheBit) {
  const char* kept = std::getenv("EXPORTED");
  if (want_.outputs.empty() && kept == nullptr) return;
  const fs::path path = (kept ? fs::path(kept) : folder_.path()) /
                        (GetParam().recorded + ".safetensors");
  const auto model = started();
  std::vector<float> parameters(model->parameters().num_elems());
  std::vector<float> buffers(model->buffers().num_elems());
  model->initialise(parameters, buffers, 1);
  write_model(path, model_info(GetParam().options.family).names(),
              {model->parameters(), model->buffers(), parameters, buffers}, 3,
              kBatches, {{"format", "pt"}});
  const SafeTensors given(file_), written(path);
  EXPECT_EQ(written.metadata(), given.metadata());
  ASSERT_EQ(written.tensors().size(), given.tensors().size());
  for (const SafeTensors::Tensor& tensor : given.tensors()) {
    EXPECT_EQ(written.tensor(tensor.name).dtype, tensor.dtype);
    EXPECT_EQ(written.shape(tensor.name), tensor.shape);
    if (!given.can_read(tensor.name)) continue;
    std::vector<float> a(tensor.elems), b(tensor.elems);
    given.read(tensor.name, a);
    written.read(tensor.name, b);
    EXPECT_EQ(a, b) << tensor.name;
  }
}

std::string refusal_of(const Recorded& file, const ModelOptions& options) {
  const ScratchFolder folder;
  write_recorded(folder / "w.safetensors", file);
  ModelOptions with = options;
  with.weights = (folder / "w.safetensors").string();
  try {
    make_model(with, kSmall, DType::kF32)->open_start();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    const std::string text = error.what();
    return text.substr(text.rfind("safetensors: ") + 13);
  }
  return "accepted";
}

TEST(FileNames, MissingAndOtherTensorsAreNamedAsInTheFile) {
  Recorded file = recorded("resnet8");
  EXPECT_EQ(refusal_of(file, {.depth = 8}), "accepted");
  file.tensors.erase("layer2.0.downsample.1.running_var");
  EXPECT_EQ(refusal_of(file, {.depth = 8}),
            "layer2.0.downsample.1.running_var is missing; the keys of [model] "
            "must be those of the weights");
  file = recorded("resnet8");
  file.tensors.erase("fc.bias");
  EXPECT_EQ(refusal_of(file, {.depth = 8}),
            "fc.bias is missing; the rest of fc is there");
  file.tensors.erase("fc.weight");
  EXPECT_EQ(refusal_of(file, {.depth = 8}), "accepted");
  file = recorded("resnet8");
  file.tensors["conv1.weight"] = {8, 3, 3, 3};
  EXPECT_EQ(refusal_of(file, {.depth = 8}),
            "conv1.weight has shape (8, 3, 3, 3), but the network's has (16, "
            "3, 3, 3); "
            "the keys of [model] must be those of the weights");
}

TEST(FileNames, ClassifierOfAFileWithoutOneIsRandom) {
  Recorded file = recorded("resnet8");
  file.tensors.erase("fc.weight");
  file.tensors.erase("fc.bias");
  const ScratchFolder folder;
  write_recorded(folder / "w.safetensors", file);
  ModelOptions options{.depth = 8};
  const auto values = [&] {
    const auto model = make_model(options, kSmall, DType::kF32);
    std::vector<float> parameters(model->parameters().num_elems());
    std::vector<float> buffers(model->buffers().num_elems());
    model->initialise(parameters, buffers, 3);
    return parameters;
  };
  const std::vector<float> random = values();
  options.weights = (folder / "w.safetensors").string();
  const std::vector<float> started = values();
  const int64_t head = std::ssize(random) - 64 * 10 - 10;
  EXPECT_TRUE(
      std::equal(random.begin() + head, random.end(), started.begin() + head));
  EXPECT_NE(random[0], started[0]);
}

TEST(FileNames, RowsRenameWholeWords) {
  const FileNames names{
      .whose = "test",
      .rows = {{"stem.bn", "bn1"}, {"stage#.block#", "layer#.#"}}};
  EXPECT_EQ(name_in_file(names, "stem.bn.weight"), "bn1.weight");
  EXPECT_EQ(name_in_file(names, "stem.bn2.weight"), "stem.bn2.weight");
  EXPECT_EQ(name_in_file(names, "stage1.block12.conv1.weight"),
            "layer1.12.conv1.weight");
  EXPECT_EQ(name_in_file(names, "stage.block1.x"), "stage.block1.x");
  EXPECT_EQ(name_in_file(names, "fc.weight"), "fc.weight");
}

// (K, H W C) to (K, C H W).
TEST(FileNames, PixelsChannelsFirst) {
  const std::vector<float> last = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<float> matrix = last;
  to_channels_first(matrix, 2, 3);
  EXPECT_EQ(matrix,
            (std::vector<float>{1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12}));
  to_channels_last(matrix, 2, 3);
  EXPECT_EQ(matrix, last);
}

}  // namespace
}  // namespace syncopate
