// The wall clock of training, which stands still during evaluations and
// checkpoints and continues on resume.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/clock.h"

namespace syncopate {

class TrainingClock {
 public:
  void start() { started_s_ = monotonic_s(); }
  void stop() {
    stopped_at_s_ = now_s();
    started_s_ = 0;
  }
  // On resume, before start(): continues from `earlier_s`.
  void resume(double earlier_s) { stopped_at_s_ = resumed_s_ = earlier_s; }

  // Seconds of training in the whole run, also while the clock runs.
  double now_s() const {
    return started_s_ > 0 ? stopped_at_s_ + monotonic_s() - started_s_
                          : stopped_at_s_;
  }
  // Of these, in this process.
  double since_start_s() const { return now_s() - resumed_s_; }

 private:
  double started_s_ = 0;  // 0: stopped
  double stopped_at_s_ = 0, resumed_s_ = 0;
};

}  // namespace syncopate
