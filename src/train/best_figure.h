// checkpoint.best: the best figure of a run's evaluations so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "train/eval_figure.h"

namespace syncopate {

// The key under which a checkpoint states the best so far: "accuracy 0.9123".
inline constexpr const char* kBestFigure = "best_score";

class BestFigure {
 public:
  // Throws Error(kBadInput) if checkpoint.best names no figure of the
  // evaluations.
  explicit BestFigure(const Engine& engine);

  explicit operator bool() const { return figure_.has_value(); }
  // Returns whether the figure is better than all before; NaN never is.
  bool note(const Evaluation& evaluation);
  bool is_known() const { return best_.has_value(); }
  std::string text() const;  // of kBestFigure; "" before the first evaluation
  // Goes on from a checkpoint's facts; from nothing if they are about another
  // figure.
  void resume(const std::map<std::string, std::string>& facts);

 private:
  std::optional<EvalFigure> figure_;
  std::optional<double> best_;
};

}  // namespace syncopate
