#include "train/best_figure.h"

#include <cmath>

#include "base/text.h"

namespace syncopate {

BestFigure::BestFigure(const Engine& engine) {
  const std::string& name = engine.options.checkpoint.best;
  if (name != "none") figure_.emplace(engine, "checkpoint.best", name);
}

bool BestFigure::note(const Evaluation& evaluation) {
  const double value = figure_->of(evaluation);
  if (std::isnan(value)) return false;
  const bool is_better =
      !best_ || (figure_->is_loss() ? value < *best_ : value > *best_);
  if (is_better) best_ = value;
  return is_better;
}

std::string BestFigure::text() const {
  return best_ ? fmt::format("{} {}", figure_->name(), *best_) : "";
}

void BestFigure::resume(const std::map<std::string, std::string>& facts) {
  const auto stated = facts.find(kBestFigure);
  if (!figure_ || stated == facts.end()) return;
  const std::vector<std::string> words = split(stated->second, ' ');
  if (words.size() == 2 && words[0] == figure_->name())
    best_ = parse_double(words[1]);
}

}  // namespace syncopate
