// Faults that an input requests ([faults]), to try out how a cluster, a job
// script or a check reacts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/options.h"
#include "watch/activity.h"

namespace syncopate {

class Faults {
 public:
  Faults(const FaultOptions& options, int rank)
      : options_(options), is_mine_(options.rank == rank) {}

  // Called when this worker enters `stage` at its step `step`. Kills this
  // process (SIGKILL), stops it (SIGSTOP) or blocks it forever, once.
  void strike(Stage stage, int64_t step);
  // Returns, once, whether `kind` (nan, flip) is due: nan before the gradients
  // of `step` are sent, flip before the step after it.
  bool spoils(FaultKind kind, int64_t step);

 private:
  bool is_due(int64_t step) const;

  FaultOptions options_;
  bool is_mine_, has_struck_ = false;
};

}  // namespace syncopate
