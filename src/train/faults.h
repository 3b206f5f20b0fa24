// Faults that an input asks for ([faults]), so that a cluster, a job script or
// a check can be seen to do what it should.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "config/options.h"
#include "watch/activity.h"

namespace syncopate {

class Faults {
 public:
  Faults(const FaultOptions& options, int rank)
      : options_(options), is_mine_(options.rank == rank) {}

  // Comes when this worker enters `stage` at its step `step`: kills (KILL),
  // stops (STOP) or holds up this process for ever, once.
  void strike(Stage stage, int64_t step);
  // What `kind` (nan, flip) spoils, once: before the gradients of `step` are
  // sent, and before the step after it.
  bool spoils(FaultKind kind, int64_t step);

 private:
  bool is_due(int64_t step) const;

  FaultOptions options_;
  bool is_mine_, has_struck_ = false;
};

}  // namespace syncopate
