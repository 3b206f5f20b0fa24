// Heterogeneity as input: what a worker's step costs beyond its computing, in
// virtual time, or slept under MPI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/endpoint.h"
#include "config/episodes.h"
#include "config/options.h"

namespace syncopate {

class Stragglers {
 public:
  Stragglers(const Options& options, int rank, int workers);

  // Virtual seconds of this worker's step (its own count) that begins at
  // `now`, all in all: compute.step_s / speed * factors + delays.
  double virtual_s(int64_t step, Time now) const;

  // MPI: sleeps for (factors - 1) * the computing of the step before + delays,
  // in front of a step, so that nothing of it is sent too early. `now`: wall
  // seconds since this process started to train.
  void sleep(int64_t step, Time now, double computed_s) const;

 private:
  double delays_s(int64_t step) const;
  Episodes::Effect episodes_at(int64_t step, Time now) const;

  StragglerOptions options_;
  uint64_t seed_;
  int rank_;
  double step_s_, factor_;
  Episodes episodes_;
};

}  // namespace syncopate
