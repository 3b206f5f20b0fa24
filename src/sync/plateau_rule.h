// sync_switch.plateau: a phase has stalled after `patience` evaluations in a
// row that did not improve on the phase's best by more than min_change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <span>

#include "sync/options.h"
#include "tensor/state_visitor.h"

namespace syncopate {

class PlateauRule {
 public:
  explicit PlateauRule(const SyncSwitchOptions& options)
      : plateau_(options.plateau),
        patience_(options.patience),
        min_change_(options.min_change) {}

  bool is_on() const { return plateau_ != Plateau::kNone; }
  // Takes an evaluation's loss and metric (higher is better). Returns whether
  // the phase has stalled.
  bool has_stalled(double loss, double metric) {
    const double value = plateau_ == Plateau::kEvalLoss ? -loss : metric;
    if (evaluations_++ == 0 || std::isnan(best_) ||
        value > best_ + min_change_) {
      best_ = value;
      stalled_ = 0;
      return false;
    }
    return ++stalled_ >= patience_;
  }
  int64_t stalled() const { return stalled_; }  // evaluations since the best
  void begin_phase() { evaluations_ = stalled_ = 0; }

  void visit_state(StateVisitor& visitor) {
    if (!is_on()) return;
    visitor.visit(Owner::kShared, "sync_switch/plateau_best",
                  std::span(&best_, 1));
    visitor.visit(Owner::kShared, "sync_switch/plateau_evaluations",
                  std::span(&evaluations_, 1));
    visitor.visit(Owner::kShared, "sync_switch/plateau_stalled",
                  std::span(&stalled_, 1));
  }

 private:
  Plateau plateau_;
  int64_t patience_;
  double min_change_;
  // In this phase.
  double best_ = 0;
  int64_t evaluations_ = 0, stalled_ = 0;
};

}  // namespace syncopate
