// BERT's first values from safetensors files, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "base/file.h"
#include "models/registry.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

const QuestionSpec kSpec{30, 12};

ModelOptions small(const std::string& weights = "none") {
  return {.family = "bert",
          .layers = 1,
          .hidden = 8,
          .heads = 2,
          .positions = 12,
          .weights = weights};
}

std::unique_ptr<Model> make_bert(const std::string& weights = "none") {
  return make_model(small(weights), kSpec, DType::kF32);
}

struct FileTensor {
  Shape shape;
  std::vector<float> values;
  std::string dtype = "F32";  // of as many bytes
};
using FileTensors = std::map<std::string, FileTensor>;

// A file that is gone with the test.
class WeightsFile {
 public:
  explicit WeightsFile(const FileTensors& tensors) {
    std::string header = "{", data;
    for (const auto& [name, tensor] : tensors) {
      const std::string shape = tensor.shape.text();
      header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" +
                tensor.dtype + "\",\"shape\":[" +
                shape.substr(1, shape.size() - 2) + "],\"data_offsets\":[" +
                std::to_string(data.size()) + ",";
      data.append(reinterpret_cast<const char*>(tensor.values.data()),
                  tensor.values.size() * sizeof(float));
      header += std::to_string(data.size()) + "]}";
    }
    header += "}";
    const uint64_t length = header.size();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << header << data;
  }
  std::string path() const { return path_.string(); }
  std::string described() const {
    return path() + " (XXH3-128 " + digest_of_file(path_) + ")";
  }

 private:
  ScratchFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
};

// All tensors of the small network, drawn from another seed, under the names
// that `rename` gives them; "": left out.
FileTensors published(
    const std::function<std::string(const std::string&)>& rename) {
  const std::unique_ptr<Model> bert = make_bert();
  std::vector<float> values(bert->parameters().num_elems());
  bert->initialise(values, {}, 99);
  FileTensors tensors;
  for (const ParameterEntry& entry : bert->parameters().entries()) {
    const std::string name = rename(entry.name);
    if (name.empty()) continue;
    const auto begin = values.begin() + entry.offset;
    tensors[name] = {entry.shape, {begin, begin + entry.elems()}};
    // All tensors differ, including biases and LayerNorms.
    for (float& value : tensors[name].values)
      value += static_cast<float>(entry.offset);
  }
  return tensors;
}

std::string same(const std::string& name) {
  return name;
}

std::vector<float> first_values(const Model& bert) {
  std::vector<float> values(bert.parameters().num_elems());
  bert.initialise(values, {}, 1);
  return values;
}

void expect_values_of(const FileTensors& tensors, const WeightsFile& file) {
  const std::unique_ptr<Model> bert = make_bert(file.path());
  const std::vector<float> values = first_values(*bert);
  const FileTensors plain = published(same);
  ASSERT_EQ(tensors.size(), plain.size());
  for (const ParameterEntry& entry : bert->parameters().entries())
    EXPECT_TRUE(std::ranges::equal(
        std::span(values).subspan(entry.offset, entry.elems()),
        plain.at(entry.name).values))
        << entry.name;
}

std::string refusal(const ModelOptions& options,
                    const QuestionSpec& spec = kSpec) {
  try {
    make_model(options, spec, DType::kF32)->open_start();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST(BertWeights, RoundTrip) {
  const FileTensors tensors = published(same);
  const WeightsFile file(tensors);
  expect_values_of(tensors, file);
  const std::unique_ptr<Model> bert = make_bert(file.path());
  bert->open_start();
  EXPECT_EQ(bert->describe_start(), file.described() + ": 23 tensors");
}

TEST(BertWeights, NamesWithoutPrefixAndOldOnesOfLayerNorm) {
  const FileTensors tensors = published([](const std::string& name) {
    std::string other = name.starts_with("bert.") ? name.substr(5) : name;
    const size_t norm = other.find("LayerNorm.");
    if (norm != std::string::npos)
      other =
          other.substr(0, norm) +
          (other.ends_with("weight") ? "LayerNorm.gamma" : "LayerNorm.beta");
    return other;
  });
  expect_values_of(tensors, WeightsFile(tensors));
}

TEST(BertWeights, MissingHeadIsRandomAndSaidSo) {
  FileTensors tensors = published([](const std::string& name) {
    return name.starts_with("qa_outputs") ? std::string() : name;
  });
  tensors["bert.pooler.dense.bias"] = {{8}, std::vector<float>(8)};
  const WeightsFile file(tensors);
  const std::unique_ptr<Model> bert = make_bert(file.path());
  bert->open_start();
  EXPECT_EQ(bert->describe_start(),
            file.described() +
                ": 21 tensors; random because the file lacks them: "
                "qa_outputs.weight, qa_outputs.bias; 1 of the file not used: "
                "bert.pooler.dense.bias");
  const std::vector<float> values = first_values(*bert);
  const std::vector<float> random = first_values(*make_bert());
  const auto& entries = bert->parameters().entries();
  const int64_t head = entries[entries.size() - 2].offset;
  EXPECT_TRUE(
      std::equal(values.begin() + head, values.end(), random.begin() + head));
  EXPECT_EQ(values[0], tensors.at(entries[0].name).values[0]);
}

TEST(BertWeights, EveryMissingOrMisshapenTensorHasALine) {
  FileTensors tensors = published([](const std::string& name) {
    return name.ends_with("intermediate.dense.bias") ||
                   name == "qa_outputs.bias"
               ? std::string()
               : name;
  });
  const std::string positions = "bert.embeddings.position_embeddings.weight";
  tensors[positions] = {{16, 8}, std::vector<float>(16 * 8)};
  const std::string words = "bert.embeddings.word_embeddings.weight";
  tensors[words] = {{240}, std::vector<float>(240)};
  const WeightsFile file(tensors);
  const std::string start = "model.weights: " + file.path() + ": ";
  EXPECT_EQ(refusal(small(file.path())),
            start + words +
                " has shape (240), but the network's has (30, 8); the "
                "vocabulary must be "
                "that of the weights\nerror: " +
                start + positions +
                " has shape (16, 8), but the network's has (12, 8); "
                "model.positions and "
                "model.hidden must be those of the weights\nerror: " +
                start +
                "bert.encoder.layer.0.intermediate.dense.bias is missing; "
                "model.layers, hidden and intermediate must be those of the "
                "weights\nerror: " +
                start +
                "qa_outputs.bias is missing; the rest of qa_outputs is there");
}

TEST(BertWeights, OtherTypesAreRefusedAtOnce) {
  FileTensors tensors = published(same);
  tensors["qa_outputs.bias"].dtype = "I32";
  const WeightsFile file(tensors);
  EXPECT_EQ(refusal(small(file.path())),
            "model.weights: " + file.path() +
                ": qa_outputs.bias is of I32, expected F32, F64, F16 or BF16");
}

TEST(BertWeights, MissingFile) {
  EXPECT_EQ(error_of([] {
              make_bert("/nowhere/model.safetensors")->open_start();
            }).code(),
            ExitCode::kInputMissing);
}

// A run that resumes from a checkpoint does not read them.
TEST(BertWeights, AreNotReadBeforeTheStart) {
  const std::unique_ptr<Model> bert = make_bert("/nowhere/model.safetensors");
  EXPECT_THROW(first_values(*bert), Error);
}

TEST(BertRefusals, SizesThatHaveNoNetwork) {
  const auto with = [](int64_t ModelOptions::*member, int64_t value) {
    ModelOptions options = small();
    options.*member = value;
    return refusal(options);
  };
  EXPECT_EQ(with(&ModelOptions::heads, 3),
            "model.hidden: 8: must be a multiple of model.heads = 3 (near: 9)");
  EXPECT_EQ(with(&ModelOptions::layers, 0),
            "model.layers: 0: must lie in 1 .. 1000");
  EXPECT_EQ(with(&ModelOptions::hidden, -8),
            "model.hidden: -8: must lie in 1 .. 65536");
  EXPECT_EQ(with(&ModelOptions::heads, 16),
            "model.heads: 16: must lie in 1 .. 8");
  EXPECT_EQ(with(&ModelOptions::intermediate, -1),
            "model.intermediate: -1: must lie in 1 .. 1048576");
  EXPECT_EQ(with(&ModelOptions::positions, 8),
            "model.positions: 8: sequences of the data have up to 12 tokens, "
            "and each needs a position");
  ModelOptions options = small();
  options.attention_dropout = 1;
  EXPECT_EQ(refusal(options), "model.attention_dropout: 1: must lie in [0, 1)");
  options = small();
  options.hidden_dropout = std::nan("");
  EXPECT_EQ(refusal(options), "model.hidden_dropout: nan: must lie in [0, 1)");
}

}  // namespace
}  // namespace syncopate
