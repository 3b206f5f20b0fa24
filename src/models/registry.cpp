#include "models/registry.h"

#include <cmath>

#include "base/text.h"
#include "models/bert.h"
#include "models/deepfm.h"
#include "models/logistic.h"
#include "models/residual_net.h"
#include "models/resnet.h"
#include "models/wrn.h"

namespace syncopate {
namespace {

// Returns the spec if it is of the kind that a family's networks are made for.
template <typename Spec>
const Spec& spec_for(const ModelRequest& wanted, const char* kinds) {
  const Spec* found = std::get_if<Spec>(&wanted.spec);
  if (found == nullptr)
    fail(ExitCode::kBadInput,
         "model.family: {} is a network for {}, and data.kind is of another "
         "kind of samples",
         wanted.options.family, kinds);
  return *found;
}

DeepFmShape deepfm_shape(const ModelOptions& options) {
  DeepFmShape shape;
  shape.embedding = options.embedding;
  shape.mlp.clear();
  for (const double width : options.mlp)
    shape.mlp.push_back(whole_number("mlp", width));
  shape.dropout = static_cast<float>(options.mlp_dropout);
  shape.has_normal_first_order =
      options.first_order_init == FirstOrderInit::kNormal;
  return shape;
}

const ImageSpec& images(const ModelRequest& wanted) {
  return spec_for<ImageSpec>(wanted, "images");
}

std::unique_ptr<Network> make_logistic(const ModelRequest& wanted) {
  return std::make_unique<Logistic>(images(wanted), wanted.compute);
}

std::unique_ptr<Network> make_resnet(const ModelRequest& wanted) {
  return std::make_unique<ResidualNet>(images(wanted), wanted.compute,
                                       resnet_shape(wanted.options));
}

std::unique_ptr<Network> make_wrn(const ModelRequest& wanted) {
  return std::make_unique<ResidualNet>(images(wanted), wanted.compute,
                                       wrn_shape(wanted.options));
}

std::unique_ptr<Network> make_bert(const ModelRequest& wanted) {
  return std::make_unique<Bert>(wanted.options,
                                spec_for<QuestionSpec>(wanted, "questions"),
                                wanted.compute);
}

std::unique_ptr<Network> make_deepfm(const ModelRequest& wanted) {
  return std::make_unique<DeepFm>(spec_for<ClickSpec>(wanted, "clicks"),
                                  wanted.compute, deepfm_shape(wanted.options));
}

}  // namespace

const std::vector<ModelInfo>& model_table() {
  static const std::vector<ModelInfo> table{
      {.family = "logistic",
       .description = "logistic regression on pixels: one dense layer",
       .options = {"label_smoothing", "weights"},
       .can_bf16 = false,
       .make = &make_logistic,
       .names = &logistic_names},
      {.family = "resnet",
       .description =
           "residual networks: CIFAR form (depth 6n+2) and ImageNet form "
           "(depth "
           "18 34 50 101), post- or pre-activation; He's, Tensor2Tensor's, "
           "Gluon's",
       .options = {"depth", "stem", "block", "version", "variant", "stages",
                   "widths", "stem_width", "init", "label_smoothing",
                   "weights"},
       .has_batchnorm = true,
       .make = &make_resnet,
       .names = &residual_names},
      {.family = "wrn",
       .description = "wide residual networks WRN-depth-width: DS-Sync's (form "
                      "post, depth "
                      "6n+2), Zagoruyko's (form pre, depth 6n+4), WRN-50-2 "
                      "(stem imagenet)",
       .options = {"depth", "width", "stem", "form", "dropout", "init",
                   "label_smoothing", "weights"},
       .has_batchnorm = true,
       .make = &make_wrn,
       .names = &residual_names},
      {.family = "bert",
       .description =
           "BERT with a span head for extractive question answering, of any "
           "size; from published weights or random ones",
       .options = {"layers", "hidden", "heads", "intermediate", "positions",
                   "hidden_dropout", "attention_dropout", "weights",
                   "recompute"},
       .has_norms = true,
       .has_tables = true,
       .make = &make_bert,
       .names = &bert_names},
      {.family = "deepfm",
       .description =
           "DeepFM: first order, factorisation machine and an MLP over the "
           "embeddings of click records",
       .options = {"embedding", "mlp", "mlp_dropout", "first_order_init",
                   "weights"},
       .has_batchnorm = true,
       .has_tables = true,
       .make = &make_deepfm,
       .names = &deepfm_names},
  };
  return table;
}

int64_t whole_number(const char* key, double value) {
  if (!(value >= 1 && value <= 65536) || value != std::floor(value))
    fail(ExitCode::kBadInput,
         "model.{}: {}: expected whole numbers from 1 to 65536", key, value);
  return static_cast<int64_t>(value);
}

const ModelInfo& model_info(const std::string& family) {
  std::vector<std::string> families;
  for (const ModelInfo& info : model_table()) {
    if (info.family == family) return info;
    families.push_back(info.family);
  }
  const auto meant = nearest(family, families);
  fail(ExitCode::kBadInput, "model.family: {}: not one of {}{}", family,
       join(families, ", "), meant ? " (did you mean " + *meant + "?)" : "");
}

std::unique_ptr<Model> make_model(const ModelOptions& options,
                                  const SampleSpec& spec,
                                  DType compute) {
  const ModelInfo& info = model_info(options.family);
  std::unique_ptr<Network> network = info.make({options, spec, compute});
  const auto* image = std::get_if<ImageSpec>(&spec);
  network->start_from({.path = options.weights,
                       .names = &info.names(),
                       .channels = image == nullptr ? 0 : image->C});
  if (auto* classifier = dynamic_cast<Classifier*>(network.get()))
    classifier->smooth_labels(options.label_smoothing);
  return network;
}

}  // namespace syncopate
