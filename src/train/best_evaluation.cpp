#include "train/best_evaluation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace syncopate {

bool BestEvaluation::note(const Evaluation& evaluation) {
  ++evaluations;
  const double before = score;
  const auto compare = [&](const std::vector<double>& metrics, bool averages) {
    if (!(metrics[1] > score)) return;  // nor where it is NaN
    score = metrics[1];
    is_of_average = averages;
  };
  compare(evaluation.metrics, false);
  if (evaluation.average) compare(*evaluation.average, true);
  return score > before;
}

void BestEvaluation::note_test(const Evaluation& test) {
  test_score = is_of_average ? (*test.average)[1] : test.metrics[1];
}

void BestEvaluation::summarize(Results& results,
                               const MetricInfo& metric,
                               SetPart on) const {
  if (score < 0) return;
  // Checkpoints of earlier versions do not state their number.
  const double number =
      std::max(evaluations, static_cast<double>(results.table("eval").rows()));
  const std::string text = fmt::format("best of {} {} evaluations", number, on);
  if (on == SetPart::kTest) {
    results.summary("best_" + metric.name, score, metric.unit, text);
    return;
  }
  results.summary("best_validation_" + metric.name, score, metric.unit, text);
  if (std::isfinite(test_score))
    results.summary("best_" + metric.name, test_score, metric.unit,
                    "test score at the best validation score");
}

}  // namespace syncopate
