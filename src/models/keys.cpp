// The keys of [model].
#include <algorithm>

#include "base/check.h"
#include "keys/key.h"
#include "models/registry.h"

namespace syncopate {
namespace {

using Words = std::vector<std::string>;

Words families_with(bool ModelInfo::*property) {
  return names_of<ModelInfo>(
      model_table(), &ModelInfo::family,
      [&](const ModelInfo& info) { return info.*property; });
}

// Adds to the conditions of a key that the family's row in the table lists it;
// no condition if all rows do.
void restrict_to_families(Key& key) {
  const Words families = names_of<ModelInfo>(
      model_table(), &ModelInfo::family, [&](const ModelInfo& info) {
        return std::ranges::count(info.options, key.word()) > 0;
      });
  CHECK_MSG(!families.empty(), "{}: no family uses it", key.name);
  if (families.size() < model_table().size())
    key.used_when.insert(key.used_when.begin(), {"model.family", families});
}

// Keys of residual networks other than those that He et al. published.
Keys residual_keys() {
  return {
      {.name = "model.variant",
       .place = &ModelOptions::variant,
       .doc = "Published form of the network. he: He et al. as in "
              "torchvision; t2t: Tensor2Tensor (Sync-Switch), with "
              "pre-activation basic blocks, post-activation "
              "bottlenecks, projections with BatchNorm, a 7x7 stem "
              "cifar without a fourth stage, and 6n+2 layers of widths "
              "32, 64, 128 after 16; gluon: Gluon (ESync), where "
              "version 1 has the bottleneck's stride in its first "
              "convolution and biases in its 1x1 convolutions, and "
              "version 2 has BatchNorm on the images and in the stem."},
      {.name = "model.stages",
       .place = &ModelOptions::stages,
       .doc = "Number of blocks of each stage, all but the first with "
              "stride 2; auto: given by model.depth.",
       .low = 1,
       .high = 10000,
       .zero_word = "auto"},
      {.name = "model.widths",
       .place = &ModelOptions::widths,
       .doc = "Channels of each stage, a quarter of a bottleneck's "
              "output; auto: given by model.depth.",
       .low = 1,
       .high = 65536,
       .zero_word = "auto"},
      {.name = "model.stem_width",
       .place = &ModelOptions::stem_width,
       .doc = "Filters of the stem; auto: the first stage's width (variant "
              "t2t of 6n+2 layers: 16).",
       .low = 1,
       .high = 65536,
       .zero_word = "auto"},
      {.name = "model.init",
       .place = &ModelOptions::init,
       .doc = "Initial values. he: filters N(0, 2 / fan_out), "
              "classifier U(-a, a), a = 1 / sqrt(fan_in); xavier: U(-a, "
              "a), a = sqrt(6 / (fan_in + fan_out)), as in MXNet's "
              "Xavier() (ESync); t2t: filters truncated normal with "
              "variance 1 / fan_in, classifier 4 / (fan_in + fan_out), "
              "and with variant t2t 0 for the last gamma of a stage of "
              "bottlenecks (Sync-Switch); gluon: U(-0.07, 0.07). Biases "
              "are 0 except for he's classifier."},
  };
}

Keys encoder_keys() {
  return {
      {.name = "model.layers",
       .place = &ModelOptions::layers,
       .doc = "Layers of the encoder: BERT tiny 2, mini 4, base 12, large 24.",
       .low = 1,
       // More is a mistake.
       .high = 1000},
      {.name = "model.hidden",
       .place = &ModelOptions::hidden,
       .doc = "Width of a token: BERT tiny 128, mini 256, base 768, large "
              "1024.",
       .low = 1},
      {.name = "model.heads",
       .place = &ModelOptions::heads,
       .doc = "Number of attention heads, a divisor of model.hidden.",
       .low = 1},
      {.name = "model.intermediate",
       .place = &ModelOptions::intermediate,
       .doc = "Width between the two matrices of a feed-forward block; "
              "auto: 4 * model.hidden.",
       .low = 1,
       .zero_word = "auto"},
      {.name = "model.positions",
       .place = &ModelOptions::positions,
       .doc = "Number of learned positions; at least data.max_length.",
       .low = 1},
      {.name = "model.hidden_dropout",
       .place = &ModelOptions::hidden_dropout,
       .doc = "Probability of dropping an element after the embeddings "
              "and before each residual sum.",
       .low = 0,
       .high = 0.999},
      {.name = "model.attention_dropout",
       .place = &ModelOptions::attention_dropout,
       .doc = "Probability of dropping an attention probability.",
       .low = 0,
       .high = 0.999},
      {.name = "model.recompute",
       .place = &ModelOptions::recompute,
       .doc = "Whether backward recomputes a layer's activations "
              "instead of keeping them: less memory, more time, the "
              "same bits.",
       .on_resume = OnResume::kMayChange},
  };
}

Keys click_keys() {
  return {
      {.name = "model.embedding",
       .place = &ModelOptions::embedding,
       .doc = "Width of the embeddings.",
       .low = 1,
       // More is a mistake.
       .high = 4096},
      {.name = "model.mlp",
       .place = &ModelOptions::mlp,
       .doc = "Widths of the hidden layers.",
       .low = 1,
       .high = 65536,
       .zero_word = "none"},
      {.name = "model.mlp_dropout",
       .place = &ModelOptions::mlp_dropout,
       .doc = "Probability of dropping an element after each hidden "
              "layer.",
       .low = 0,
       .high = 0.999,
       .used_when = {{"model.mlp", {}}}},
      {.name = "model.first_order_init",
       .place = &ModelOptions::first_order_init,
       .doc = "Initial values of the first-order weights: xavier, as "
              "for the embeddings, or normal, N(0, 1), as in DS-Sync's "
              "program."},
  };
}

}  // namespace

Keys model_keys() {
  Keys keys = {
      {.name = "model.family",
       .place = &ModelOptions::family,
       .doc = "The network.",
       .choices = names_of(model_table(), &ModelInfo::family),
       .traits = {{"batchnorm", families_with(&ModelInfo::has_batchnorm)},
                  {"norms", families_with(&ModelInfo::has_norms)},
                  {"tables", families_with(&ModelInfo::has_tables)},
                  {"bf16", families_with(&ModelInfo::can_bf16)}}},
      {.name = "model.weights",
       .place = &ModelOptions::weights,
       .doc = "Safetensors file with the initial values, from syncopate "
              "export, torchvision (resnet, wrn) or Hugging Face (bert; "
              "postprocess/import_bert.py converts other formats). If it "
              "lacks the classifier (fc, qa_outputs), this is initialized at "
              "random. none: random values.",
       .on_resume = OnResume::kMayChange},
      {.name = "model.label_smoothing",
       .place = &ModelOptions::label_smoothing,
       .doc = "Share of each training target that is spread evenly over all "
              "classes. Evaluations are not smoothed.",
       .low = 0,
       .high = 0.999},
      {.name = "model.depth",
       .place = &ModelOptions::depth,
       .doc = "Number of layers in the usual count: resnet 6n+2 (stem "
              "cifar) or 18, 34, 50, 101 (ImageNet form; 50 always has "
              "it); wrn 6n+2 (post), 6n+4 (pre), or 50, 101 (stem "
              "imagenet).",
       .low = 1,
       .high = 10000,
       .used_when = {{"model.stages", {"auto"}}}},
      {.name = "model.width",
       .place = &ModelOptions::width,
       .doc = "Widening factor k of WRN-d-k.",
       .low = 1,
       // As in models/wrn.cpp.
       .high = 64},
      {.name = "model.stem",
       .place = &ModelOptions::stem,
       .doc = "First layers: cifar is a 3x3 convolution (variant t2t: "
              "7x7), imagenet a 7x7 convolution of stride 2 with "
              "max-pooling."},
      {.name = "model.block",
       .place = &ModelOptions::block,
       .doc = "Residual block; auto: basic below 44 layers and if "
              "stages are given, otherwise bottleneck."},
      {.name = "model.version",
       .place = &ModelOptions::version,
       .doc = "1: activation after the addition; 2: before the convolutions.",
       .low = 1,
       .high = 2,
       .used_when = {{"model.variant", {"he", "gluon"}}}},
      {.name = "model.form",
       .place = &ModelOptions::form,
       .doc = "Post-activation blocks (DS-Sync) or pre-activation blocks "
              "(Zagoruyko and Komodakis)."},
      {.name = "model.dropout",
       .place = &ModelOptions::dropout,
       .doc = "Probability of dropping an activation inside a block.",
       .low = 0,
       .high = 0.999,
       .used_when = {{"model.form", {"pre"}}}},
  };
  for (const auto part : {residual_keys, encoder_keys, click_keys})
    append(keys, part());
  for (Key& key : keys)
    if (key.name != "model.family") restrict_to_families(key);
  return keys;
}

}  // namespace syncopate
