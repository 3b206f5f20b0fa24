// When this process must end: the earlier of run.time_limit_s and the end of
// the Slurm job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>

#include "run/session.h"

namespace syncopate {

class TimeLimit {
 public:
  // `limit_s` counts from the start of the process; 0 means no limit. Inside a
  // job, rank 0 queries Slurm here, which may take 5 s, and tells the others,
  // so this is collective. One object per process, shared by its workers.
  TimeLimit(Session& session, double limit_s);

  // Returns whether at most `needed_s` is left; under Slurm, time for the
  // launcher to end is deducted first.
  bool is_near(double needed_s) const;

  // For the log: "Slurm ends this job in 59:00 (squeue)", or why the end is
  // unknown; empty if there is no limit.
  const std::string& description() const { return description_; }

  // Returns a warning for the log if less than `expected_s`, the duration of a
  // checkpoint, is left. Empty if enough is left or it was returned before.
  std::string too_late(double expected_s);

  // Returns a warning for the log if the end of the job is unknown and stopping
  // takes `needed_s`, longer than Slurm's KillWait: the user must request an
  // earlier signal. Empty otherwise, or if it was returned before.
  std::string needs_signal(double needed_s);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  double left_s() const;
  void ask_slurm(double limit_s);

  double end_s_ = kNever;  // by monotonic_s()
  bool is_blind_ = false;  // in a job whose end is unknown
  bool has_said_late_ = false, has_said_blind_ = false;
  std::string description_;
};

}  // namespace syncopate
