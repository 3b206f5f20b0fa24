#include "train/eval_figure.h"

#include <algorithm>

#include "base/text.h"

namespace syncopate {

EvalFigure::EvalFigure(const Engine& engine,
                       const std::string& key,
                       const std::string& name)
    : name_(name) {
  std::vector<std::string> names;
  const std::vector<MetricInfo> metrics = engine.problem->metrics();
  for (const MetricInfo& metric : metrics) names.push_back(metric.name);
  if (engine.options.eval.model == EvalChoice::kEachAndAverage)
    for (const MetricInfo& metric : metrics)
      names.push_back(metric.name + "_average");
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    const auto meant = nearest(name, names);
    engine.input.refuse(fmt::format(
        "{}: {} is not one of this evaluation's metrics, which are {}{}", key,
        name, join(names, ", "),
        meant ? fmt::format(" (did you mean {}?)", *meant) : ""));
  }
  const auto index = static_cast<size_t>(found - names.begin());
  of_average_ = index >= metrics.size();
  metric_ = index % metrics.size();
}

double EvalFigure::of(const Evaluation& evaluation) const {
  return (of_average_ ? *evaluation.average : evaluation.metrics)[metric_];
}

}  // namespace syncopate
