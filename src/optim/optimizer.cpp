#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace syncopate {

const std::vector<std::pair<std::string, std::string>>& optimizer_table() {
  static const std::vector<std::pair<std::string, std::string>> table = {
      {"sgd", "stochastic gradient descent: momentum, Nesterov, weight decay"},
      {"adam", "Adam; weight decay is added to the gradient"},
      {"adamw", "AdamW: Adam, and weight decay that acts on parameters alone"},
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

double scaled_rate(const OptimizerOptions& options,
                   int64_t batch,
                   int workers,
                   int neighbours) {
  if (options.lr_scale == "none") return options.lr;
  double factor = workers;
  if (options.lr_factor == "graph") factor = neighbours;
  if (const auto number = parse_double(options.lr_factor)) factor = *number;
  const int64_t base = options.base_batch > 0 ? options.base_batch : batch;
  const double ratio =
      factor * static_cast<double>(batch) / static_cast<double>(base);
  return options.lr * (options.lr_scale == "sqrt" ? std::sqrt(ratio) : ratio);
}

}  // namespace syncopate
