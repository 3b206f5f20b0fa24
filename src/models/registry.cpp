#include "models/registry.h"

#include "base/text.h"
#include "models/logistic.h"
#include "models/residual_net.h"
#include "models/resnet.h"
#include "models/wrn.h"

namespace syncopate {

const std::vector<ModelInfo>& model_table() {
  static const std::vector<ModelInfo> table{
      {"logistic", "logistic regression on pixels: one dense layer", {}},
      {"resnet",
       "residual networks: CIFAR form (depth 6n+2) and ImageNet form (depth "
       "18 34 50 101), post- or pre-activation",
       {"depth", "stem", "block", "version"}},
      {"wrn",
       "wide residual networks WRN-depth-width: DS-Sync's (form post, depth "
       "6n+2), Zagoruyko's (form pre, depth 6n+4), WRN-50-2 (stem imagenet)",
       {"depth", "width", "stem", "form", "dropout"}},
  };
  return table;
}

std::unique_ptr<Model> make_model(const ModelOptions& options,
                                  const ImageSpec& spec,
                                  DType compute) {
  if (options.family == "logistic")
    return std::make_unique<Logistic>(spec, compute);
  if (options.family == "resnet")
    return std::make_unique<ResidualNet>(spec, compute, resnet_shape(options));
  if (options.family == "wrn")
    return std::make_unique<ResidualNet>(spec, compute, wrn_shape(options));
  std::vector<std::string> families;
  for (const ModelInfo& info : model_table()) families.push_back(info.family);
  const auto meant = nearest(options.family, families);
  fail(ExitCode::kBadInput, "model.family: {}: not one of {}{}", options.family,
       join(families, ", "), meant ? " (did you mean " + *meant + "?)" : "");
}

}  // namespace syncopate
