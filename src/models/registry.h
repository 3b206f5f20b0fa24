// All networks by keyword, with the options that select their variants.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/choice.h"
#include "models/model.h"
#include "models/residual_net.h"

namespace syncopate {

struct FileNames;
struct Key;
class Network;

CHOICE(StemForm, "cifar imagenet", {kCifar, kImagenet});
CHOICE(ResNetBlock, "auto basic bottleneck", {kAuto, kBasic, kBottleneck});
CHOICE(ResNetVariant, "he t2t gluon", {kHe, kT2t, kGluon});
CHOICE(FirstOrderInit, "xavier normal", {kXavier, kNormal});

struct ModelOptions {
  std::string family = "resnet";     // logistic resnet wrn bert deepfm
  int64_t depth = 20;                // resnet, wrn: layers by the field's count
  int64_t width = 1;                 // wrn: widening factor k
  StemForm stem = StemForm::kCifar;  // resnet, wrn
  ResNetBlock block = ResNetBlock::kAuto;
  int64_t version = 1;                // resnet: 1 post-, 2 pre-activation
  BlockForm form = BlockForm::kPost;  // wrn: post (DS-Sync), pre (Zagoruyko)
  double dropout = 0;                 // wrn, pre form: inside the block
  ResNetVariant variant = ResNetVariant::kHe;
  std::vector<double> stages = {};  // resnet: blocks per stage; empty: by depth
  std::vector<double> widths = {};  // resnet: channels per stage
  int64_t stem_width = 0;           // resnet: filters of the stem; 0: auto
  Init init = Init::kHe;            // resnet, wrn
  // bert: encoder sizes; defaults are those of BERT base
  int64_t layers = 12, hidden = 768, heads = 12;
  int64_t intermediate = 0;  // 0: 4 * hidden
  int64_t positions = 512;   // maximum sequence length
  double hidden_dropout = 0.1, attention_dropout = 0.1;
  bool recompute = false;  // keep only each layer's input, recompute the rest
  // deepfm
  int64_t embedding = 10;                  // width of an embedding
  std::vector<double> mlp{400, 400, 400};  // widths of the hidden layers
  double mlp_dropout = 0.5;
  FirstOrderInit first_order_init = FirstOrderInit::kXavier;
  double label_smoothing = 0;    // logistic, resnet, wrn
  std::string weights = "none";  // initial values (safetensors); none: random
};

// What a network is made from; `compute` is the activation type.
struct ModelRequest {
  const ModelOptions& options;
  const SampleSpec& spec;
  DType compute;
};

struct ModelInfo {
  std::string family;
  std::string description;                // one line for `list models`
  std::vector<std::string> options = {};  // the [model] keys it uses
  bool has_batchnorm = false;
  bool has_norms = has_batchnorm;  // BatchNorm or LayerNorm
  bool has_tables = false;         // has embedding tables
  bool can_bf16 = true;            // accepts run.precision = bf16
  // As make_model, without initial values; `options` are of this family.
  std::unique_ptr<Network> (*make)(const ModelRequest& wanted) = nullptr;
  // The names of its tensors in files of weights.
  const FileNames& (*names)() = nullptr;
};
const std::vector<ModelInfo>& model_table();
std::vector<Key> model_keys();  // of [model]
// Returns an item of the list model.`key`; Error(kBadInput) unless it is a
// whole number from 1 to 65536.
int64_t whole_number(const char* key, double value);
// Returns the row of a family; Error(kBadInput) if there is none.
const ModelInfo& model_info(const std::string& family);

// `compute` is the activation type, kF32 or kBf16. Error(kBadInput) for a
// combination without a network (resnet of depth 21), naming the nearest ones
// that exist, and for a network that needs samples of another kind.
std::unique_ptr<Model> make_model(const ModelOptions& options,
                                  const SampleSpec& spec,
                                  DType compute);

}  // namespace syncopate
