#include "optim/adam.h"
#include "optim/optimizer.h"
#include "optim/sgd.h"

namespace syncopate {

const std::vector<std::pair<std::string, std::string>>& optimizer_table() {
  static const std::vector<std::pair<std::string, std::string>> table = {
      {"sgd", "stochastic gradient descent: momentum, Nesterov, weight decay"},
      {"adam", "Adam; weight decay is added to the gradient"},
      {"adamw", "AdamW: Adam with decoupled weight decay"},
  };
  return table;
}

std::unique_ptr<Optimizer> make_optimizer(Context& context,
                                          const OptimizerOptions& options,
                                          const ParameterTable& table,
                                          int64_t begin,
                                          int64_t elems) {
  if (options.kind == "sgd")
    return std::make_unique<Sgd>(context, options, table, begin, elems);
  CHECK_MSG(options.kind == "adam" || options.kind == "adamw",
            "optimizer.kind = {}", options.kind);
  return std::make_unique<Adam>(context, options, table, begin, elems);
}

}  // namespace syncopate
