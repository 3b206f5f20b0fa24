#include "train/run_target.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace syncopate {

std::string Spent::text() const {
  return fmt::format(
      "step {}, epoch {:.2f}, {} s, {} sent, {:.0f} samples", step, epoch,
      std::isnan(virtual_s) ? fmt::format("{:.1f}", time_s)
                            : fmt::format("virtual {:.1f}", virtual_s),
      human_bytes(bytes_sent), samples);
}

RunTarget::RunTarget(const Engine& engine)
    : goal_(parse_goal(engine.options.run.target)),
      eval_every_(engine.plan.eval_every),
      steps_per_epoch_(engine.plan.steps_per_epoch) {
  if (!goal_) return;
  const bool has_average =
      engine.options.eval.model == EvalChoice::kEachAndAverage;
  std::vector<std::string> names;
  const std::vector<MetricInfo> metrics = engine.problem->metrics();
  for (const MetricInfo& metric : metrics) names.push_back(metric.name);
  if (has_average)
    for (const MetricInfo& metric : metrics)
      names.push_back(metric.name + "_average");
  const auto found = std::ranges::find(names, goal_->metric);
  if (found == names.end()) {
    const auto meant = nearest(goal_->metric, names);
    engine.input.refuse(fmt::format(
        "run.target: {} is no figure of these evaluations, which are {}{}",
        goal_->metric, join(names, ", "),
        meant ? fmt::format(" (did you mean {}?)", *meant) : ""));
  }
  const auto index = static_cast<size_t>(found - names.begin());
  of_average_ = index >= metrics.size();
  metric_ = index % metrics.size();
}

std::string RunTarget::description() const {
  return fmt::format(
      "{}, judged at evaluations: every {} step{} ({:.2f} epochs)", text(),
      eval_every_, eval_every_ == 1 ? "" : "s",
      static_cast<double>(eval_every_) / steps_per_epoch_);
}

bool RunTarget::is_reached_by(const Evaluation& evaluation) const {
  const std::vector<double>& metrics =
      of_average_ ? *evaluation.average : evaluation.metrics;
  return goal_->is_reached_by(metrics[metric_]);
}

}  // namespace syncopate
