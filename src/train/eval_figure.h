// A figure of the evaluations that a key names: one of Problem::metrics() or,
// with eval.model = each_and_average, that of the average model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/engine.h"
#include "train/evaluator.h"

namespace syncopate {

class EvalFigure {
 public:
  // "accuracy", "loss_average". Throws Error(kBadInput), which names `key` and
  // the figures that there are.
  EvalFigure(const Engine& engine,
             const std::string& key,
             const std::string& name);

  const std::string& name() const { return name_; }
  double of(const Evaluation& evaluation) const;
  // Of all figures, only losses are better if they are smaller.
  bool is_loss() const { return metric_ == 0; }

 private:
  std::string name_;
  size_t metric_;    // index into Evaluation::metrics
  bool of_average_;  // of Evaluation::average instead
};

}  // namespace syncopate
