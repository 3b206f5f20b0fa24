// sync_switch.plateau: a phase has stalled after `patience` evaluations in a
// row that did not improve on the phase's best by more than min_change. An
// evaluation with exactly the result of the one before is of the same model, as
// within a round of esync, and does not count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "sync/options.h"
#include "tensor/visit_numbers.h"

namespace syncopate {

class PlateauRule {
 public:
  explicit PlateauRule(const SyncSwitchOptions& options)
      : figure_(options.plateau),
        patience_(options.patience),
        min_change_(options.min_change) {}

  bool is_on() const { return figure_ != Plateau::kNone; }
  // Takes an evaluation's loss and metric (higher is better). Returns whether
  // the phase has now stalled.
  bool note(double loss, double metric) {
    const bool is_repeated = loss == last_loss_ && metric == last_metric_;
    last_loss_ = loss;
    last_metric_ = metric;
    if (is_repeated) return false;
    const double value = figure_ == Plateau::kEvalLoss ? -loss : metric;
    if (evaluations_++ == 0 || std::isnan(best_) ||
        value > best_ + min_change_) {
      best_ = value;
      since_best_ = 0;
      return false;
    }
    return ++since_best_ >= patience_;
  }
  int64_t evaluations_since_best() const { return since_best_; }
  void begin_phase() {
    evaluations_ = since_best_ = 0;
    last_loss_ = std::numeric_limits<double>::quiet_NaN();
  }

  void visit_state(StateVisitor& visitor) {
    if (!is_on()) return;
    visit_number(visitor, Owner::kShared, "sync_switch/plateau_best", best_);
    visit_number(visitor, Owner::kShared, "sync_switch/plateau_evaluations",
                 evaluations_);
    visit_number(visitor, Owner::kShared, "sync_switch/plateau_stalled",
                 since_best_);
    visit_number(visitor, Owner::kShared, "sync_switch/plateau_last_loss",
                 last_loss_);
    visit_number(visitor, Owner::kShared, "sync_switch/plateau_last_metric",
                 last_metric_);
  }

 private:
  Plateau figure_;
  int64_t patience_;
  double min_change_;
  // In this phase.
  double best_ = 0;
  int64_t evaluations_ = 0, since_best_ = 0;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  double last_metric_ = 0;
};

}  // namespace syncopate
