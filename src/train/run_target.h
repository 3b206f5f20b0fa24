// run.target as a run judges it: which figure of an evaluation it is about, and
// what the run had used when an evaluation first reached it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "config/goal.h"
#include "results/results.h"
#include "train/eval_figure.h"

namespace syncopate {

// What a run had used at an evaluation: all workers together.
struct Spent {
  int64_t step = 0;  // worker_steps / N
  double epoch = 0;
  double time_s = 0;     // wall time of training
  double virtual_s = 0;  // NaN under MPI
  double bytes_sent = 0;
  double samples = 0;

  // "step 120, epoch 1.20, virtual 34.1 s, 12.30 MB sent, 30720 samples"
  std::string text() const;
};

class RunTarget {
 public:
  // Throws Error(kBadInput) if run.target names no figure of the evaluations.
  explicit RunTarget(const Engine& engine);

  explicit operator bool() const { return goal_.has_value(); }
  // Requires a target, as all that follows.
  std::string text() const { return goal_->text(); }
  // "accuracy >= 0.9, judged at evaluations: every 20 steps (0.50 epochs)"
  std::string description() const;
  // Returns the first row of /eval that reached it, or nullopt.
  std::optional<size_t> first_row(const Table& eval) const;

 private:
  std::optional<Goal> goal_;
  std::optional<EvalFigure> figure_;
  int64_t eval_every_;
  double steps_per_epoch_;
};

// The key under which a checkpoint states that its run ended at run.target:
// Recorder::target_reached().
inline constexpr const char* kTargetReached = "target_reached";

}  // namespace syncopate
