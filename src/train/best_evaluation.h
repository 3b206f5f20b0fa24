// The best evaluation of a run so far, by its score: the second of
// Problem::metrics(). (checkpoint.best may follow another figure:
// best_figure.h.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "config/options.h"
#include "models/model.h"
#include "results/results.h"
#include "train/evaluator.h"

namespace syncopate {

struct BestEvaluation {
  double score = -1;  // -1: none yet
  // Whether it is the average model's (eval.model = each_and_average).
  bool is_of_average = false;
  double evaluations = 0;  // in all
  // On the test set, at the best score on the validation set; NaN: unknown.
  double test_score = std::numeric_limits<double>::quiet_NaN();

  // Returns whether its score, or that of its average model, is the best so
  // far; NaN never is.
  bool note(const Evaluation& evaluation);
  // Takes the score on the test set of the model that is the best so far.
  void note_test(const Evaluation& test);
  // Writes it to /summary, unless there is none. `metric` is the score's, and
  // `on` the set on which runs are evaluated.
  void summarize(Results& results, const MetricInfo& metric, SetPart on) const;
};

}  // namespace syncopate
