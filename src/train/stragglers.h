// Heterogeneity as an input: the extra cost of a worker's step, in virtual time
// or, under MPI, as sleep.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/endpoint.h"
#include "config/episodes.h"
#include "config/options.h"
#include "train/step_durations.h"

namespace syncopate {

class Stragglers {
 public:
  // `trace` as for StepDurations.
  Stragglers(const Options& options,
             int rank,
             int workers,
             const RecordedDurations* trace = nullptr);

  // Returns the duration, in virtual seconds, of this worker's step `step` (its
  // own count) that begins at `now`: what StepDurations says, * factors +
  // delays.
  double virtual_s(int64_t step, Time now) const;

  // Returns for how long this worker pauses before its step `step`, at `now`.
  double pause_s(int64_t step, Time now) const {
    return episodes_->at(Episode::Kind::kPause, rank_, now, step).added_s;
  }

  // Returns the virtual seconds of the computations after the backward pass of
  // step `step`, which begin at `now`.
  double update_s(int64_t step, Time now) const {
    return durations_.update_s() * factor_ * episodes_at(step, now).times;
  }

  // MPI: sleeps for (factors - 1) * computed_s + delays, where computed_s is
  // the computing time of the previous step. Call before a step, so that none
  // of its gradients are sent too early. `now` is in wall seconds since this
  // process started to train.
  void sleep(int64_t step, Time now, double computed_s) const;

 private:
  double delays_s(int64_t step) const;
  Episodes::Effect episodes_at(int64_t step, Time now) const;

  StragglerOptions options_;  // without lists by worker
  uint64_t seed_;
  int rank_;
  StepDurations durations_;
  double factor_;
  bool is_delayed_;
  std::shared_ptr<const Episodes> episodes_;  // of the process
};

}  // namespace syncopate
