// Who is a straggler, by Sync-Switch's rule: worker k whose training throughput
// S_k over a sliding window of its last steps has
//
//   S_k < mean(S) - threshold stddev(S)          (population, over the workers)
//
// in `consecutive` assessments in a row. It is one no more after as many in a
// row in which that is not so. (Spec 2.1, "Detection".)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sync/options.h"
#include "tensor/state_visitor.h"

namespace syncopate {

class StragglerDetector {
 public:
  StragglerDetector(int workers, const SyncSwitchOptions& options);

  // Forgets all steps; `is_straggler` stays as it is, or nobody is one.
  enum class Known { kKept, kForgotten };
  void restart(Known stragglers);

  // A step of this worker took so long, computing only.
  void observe(int worker, double step_s);
  // One assessment of a worker, among those with a full window.
  void assess(int worker);

  bool is_straggler(int worker) const { return is_straggler_[worker] != 0; }
  bool any() const;
  void visit_state(StateVisitor& visitor);

 private:
  // Steps a second over the window; 0 before the window is full.
  double throughput(int worker) const;
  bool is_slow(int worker) const;

  int64_t workers_, window_, consecutive_;
  double threshold_;
  std::vector<double> step_s_;        // (workers, window), rings
  std::vector<int64_t> observed_;     // steps ever, by worker
  std::vector<int64_t> slow_, fast_;  // assessments in a row
  std::vector<int64_t> is_straggler_;
};

}  // namespace syncopate
