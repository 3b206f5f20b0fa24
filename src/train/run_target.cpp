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
  figure_.emplace(engine, "run.target", goal_->metric);
}

std::string RunTarget::description() const {
  return fmt::format("{}, judged at evaluations: every {} ({:.2f} epochs)",
                     text(), counted(eval_every_, "step"),
                     static_cast<double>(eval_every_) / steps_per_epoch_);
}

std::optional<size_t> RunTarget::first_row(const Table& eval) const {
  if (eval.rows() == 0) return std::nullopt;
  const std::vector<double>& values = eval.column(figure_->name()).values;
  const auto found = std::ranges::find_if(
      values, [&](double value) { return goal_->is_reached_by(value); });
  if (found == values.end()) return std::nullopt;
  return static_cast<size_t>(found - values.begin());
}

}  // namespace syncopate
