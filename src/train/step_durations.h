// What a worker's steps take in virtual time before anything slows them down:
// compute.step_s or a recorded trace, divided by compute.speed, with noise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/options.h"

namespace syncopate {

// Recorded durations of steps.
class RecordedDurations {
 public:
  // Reads a CSV file with a row per step and a column per worker, or one column
  // for all workers, in seconds. A first line without any number (nan and
  // inf count as numbers), empty lines and lines that begin with '#' are
  // skipped. Throws Error(kBadInput) for any other line that is not a row of
  // one or `workers` numbers, for a number that is <= 0 or > kLongestStep_s,
  // and for fewer rows than `steps`, a run's length in steps of a worker.
  RecordedDurations(const std::string& path, int workers, int64_t steps);

  // Workers that take more steps than there are rows begin again at the first.
  double seconds(int rank, int64_t step) const;

 private:
  int columns_ = 0;
  std::vector<double> seconds_;  // (rows, columns)
};

class StepDurations {
 public:
  // `trace` is used by compute.law = trace, must outlive this, and may be null
  // otherwise.
  StepDurations(const Options& options,
                int rank,
                const RecordedDurations* trace);

  // Returns the duration of this worker's step `step` (its own count) in
  // seconds. Depends on run.seed and the arguments only.
  double seconds(int64_t step) const;

  // Returns what follows the backward pass takes on this worker, in seconds.
  double update_s() const { return options_.update_s / speed_; }

 private:
  double relative(int64_t step) const;  // of mean 1

  ComputeOptions options_;  // without lists by worker
  uint64_t seed_;
  int rank_;
  double speed_;
  const RecordedDurations* trace_;
};

}  // namespace syncopate
