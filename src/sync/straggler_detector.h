// Detects stragglers by Sync-Switch's rule: a worker k whose training
// throughput S_k over its last complete window of steps satisfies
//
//   S_k < mean(S) - threshold stddev(S)          (population, over the workers)
//   S_k < (1 - min_slowdown) mean(S)
//
// in `consecutive` windows in a row. It ceases to be one after `consecutive`
// windows in a row that do not satisfy both. (The first line is published; the
// second is not: among equal workers one is always below the first.)
// Windows do not overlap, so consecutive windows are independent evidence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sync/options.h"
#include "tensor/state_visitor.h"

namespace syncopate {

class StragglerDetector {
 public:
  StragglerDetector(int workers, const SyncSwitchOptions& options);

  // Forgets all steps; `is_straggler` is kept or cleared.
  enum class Known { kKept, kForgotten };
  void restart(Known stragglers);
  // Forgets everything about a worker that leaves; the others' windows go on.
  void forget(int worker);

  // Records a step of this worker as others see it: computing plus the latency
  // of its messages.
  void observe(int worker, double step_s);
  // Judges a worker whose window its last step has completed, among those with
  // a complete window; no-op for other workers. If workers step together, call
  // it after all of them were observed.
  void assess(int worker);

  bool is_straggler(int worker) const {
    return !is_straggler_.empty() && is_straggler_[worker] != 0;
  }
  bool any() const;
  // Steps per second over the last whole window; 0: there is none.
  double throughput(int worker) const {
    return throughput_.empty() ? 0 : throughput_[worker];
  }
  void visit_state(StateVisitor& visitor);

 private:
  struct Speeds {  // of the workers with a whole window
    double mean, deviation;
  };
  void make_room();
  Speeds speeds();
  bool is_slow(int worker);

  size_t workers_;
  int64_t window_, consecutive_;
  double threshold_, min_slowdown_;
  std::optional<Speeds> speeds_;  // of throughput_ as it is
  // By worker; empty until a step is observed.
  std::vector<double> throughput_;    // of the last whole window
  std::vector<double> window_s_;      // of the current window
  std::vector<int64_t> steps_;        // likewise; 0: a window has just ended
  std::vector<int64_t> slow_, fast_;  // consecutive windows
  std::vector<int64_t> is_straggler_;
};

}  // namespace syncopate
