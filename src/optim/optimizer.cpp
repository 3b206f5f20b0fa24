#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "optim/sgd.h"

namespace syncopate {

const std::vector<std::pair<std::string, std::string>>& optimizer_table() {
  static const std::vector<std::pair<std::string, std::string>> table = {
      {"sgd", "stochastic gradient descent: momentum, Nesterov, weight decay"},
  };
  return table;
}

std::unique_ptr<Optimizer> make_optimizer(Context& context,
                                          const OptimizerOptions& options,
                                          const ParameterTable& table,
                                          int64_t begin,
                                          int64_t elems) {
  CHECK_MSG(options.kind == "sgd", "optimizer.kind = {}", options.kind);
  return std::make_unique<Sgd>(context, options, table, begin, elems);
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
