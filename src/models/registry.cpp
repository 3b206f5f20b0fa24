#include "models/registry.h"

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
  shape.mlp.assign(options.mlp.begin(), options.mlp.end());
  shape.dropout = static_cast<float>(options.mlp_dropout);
  shape.has_normal_first_order =
      options.first_order_init == FirstOrderInit::kNormal;
  return shape;
}

const ImageSpec& images(const ModelRequest& wanted) {
  return spec_for<ImageSpec>(wanted, "images");
}

std::unique_ptr<Model> make_logistic(const ModelRequest& wanted) {
  return std::make_unique<Logistic>(images(wanted), wanted.compute);
}

std::unique_ptr<Model> make_resnet(const ModelRequest& wanted) {
  return std::make_unique<ResidualNet>(images(wanted), wanted.compute,
                                       resnet_shape(wanted.options));
}

std::unique_ptr<Model> make_wrn(const ModelRequest& wanted) {
  return std::make_unique<ResidualNet>(images(wanted), wanted.compute,
                                       wrn_shape(wanted.options));
}

std::unique_ptr<Model> make_bert(const ModelRequest& wanted) {
  return std::make_unique<Bert>(wanted.options,
                                spec_for<QuestionSpec>(wanted, "questions"),
                                wanted.compute);
}

std::unique_ptr<Model> make_deepfm(const ModelRequest& wanted) {
  return std::make_unique<DeepFm>(spec_for<ClickSpec>(wanted, "clicks"),
                                  wanted.compute, deepfm_shape(wanted.options));
}

}  // namespace

const std::vector<ModelInfo>& model_table() {
  static const std::vector<ModelInfo> table{
      {.family = "logistic",
       .description = "logistic regression on pixels: one dense layer",
       .can_bf16 = false,
       .make = &make_logistic},
      {.family = "resnet",
       .description =
           "residual networks: CIFAR form (depth 6n+2) and ImageNet form "
           "(depth "
           "18 34 50 101), post- or pre-activation; He's, Tensor2Tensor's, "
           "Gluon's",
       .options = {"depth", "stem", "block", "version", "variant", "stages",
                   "widths", "stem_width", "init"},
       .has_batchnorm = true,
       .make = &make_resnet},
      {.family = "wrn",
       .description = "wide residual networks WRN-depth-width: DS-Sync's (form "
                      "post, depth "
                      "6n+2), Zagoruyko's (form pre, depth 6n+4), WRN-50-2 "
                      "(stem imagenet)",
       .options = {"depth", "width", "stem", "form", "dropout", "init"},
       .has_batchnorm = true,
       .make = &make_wrn},
      {.family = "bert",
       .description =
           "BERT with a span head for extractive question answering, of any "
           "size; from published weights or random ones",
       .options = {"layers", "hidden", "heads", "intermediate", "positions",
                   "hidden_dropout", "attention_dropout", "weights",
                   "recompute"},
       .has_tables = true,
       .make = &make_bert},
      {.family = "deepfm",
       .description =
           "DeepFM: first order, factorisation machine and an MLP over the "
           "embeddings of click records",
       .options = {"embedding", "mlp", "mlp_dropout", "first_order_init"},
       .has_batchnorm = true,
       .has_tables = true,
       .make = &make_deepfm},
  };
  return table;
}

std::unique_ptr<Model> make_model(const ModelOptions& options,
                                  const SampleSpec& spec,
                                  DType compute) {
  std::vector<std::string> families;
  for (const ModelInfo& info : model_table()) {
    if (info.family == options.family)
      return info.make({options, spec, compute});
    families.push_back(info.family);
  }
  const auto meant = nearest(options.family, families);
  fail(ExitCode::kBadInput, "model.family: {}: not one of {}{}", options.family,
       join(families, ", "), meant ? " (did you mean " + *meant + "?)" : "");
}

}  // namespace syncopate
