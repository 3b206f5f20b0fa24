// When this process will be ended from outside: run.time_limit_s, and what
// Slurm has left for the job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/session.h"

namespace syncopate {

class TimeLimit {
 public:
  // `limit_s` after the process's start; 0: none. Slurm is asked once, by rank
  // 0, and only inside a job; the time is counted from then on.
  TimeLimit(const Session& session, double limit_s);

  // Less than `needed_s` is left.
  bool is_near(double needed_s) const;
  // "Slurm ends this job in 3540 s"; empty without a limit.
  const std::string& description() const { return description_; }

 private:
  double end_s_ = 0;  // of monotonic_s(); 0: none
  std::string description_;
};

}  // namespace syncopate
