// When this process will be ended from outside: run.time_limit_s, and what
// Slurm has left for the job; the nearer one counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>

#include "run/session.h"

namespace syncopate {

class TimeLimit {
 public:
  // `limit_s` after the process's start; 0: none. Slurm is asked here, by rank
  // 0 and inside a job only, which may take 5 s; its time is counted from then
  // on. One a process, which its workers share.
  TimeLimit(const Session& session, double limit_s);

  // Less than `needed_s` is left, and what a launcher needs after a run's end.
  bool is_near(double needed_s) const;

  // For the log: "Slurm ends this job in 59:00 (squeue)", or why that is not
  // known; empty where nothing ends this process.
  const std::string& description() const { return description_; }

  // For the log before a checkpoint that takes `expected_s`: less is left, so
  // it may be cut off. Empty: enough is left, or it was said before.
  std::string too_late(double expected_s);

  // For the log when it is known that stopping takes `needed_s`: only a signal
  // can tell when it is time. Empty: that is not so, or it was said before.
  std::string needs_signal(double needed_s);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  double left_s() const;

  double end_s_ = kNever;  // of monotonic_s(): all must be over by then
  bool is_blind_ = false;  // in a job whose end nobody tells
  bool has_said_late_ = false, has_said_blind_ = false;
  std::string description_;
};

}  // namespace syncopate
