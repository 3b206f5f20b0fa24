// Heterogeneity as input: what a worker's step costs beyond its computing, in
// virtual time, or slept under MPI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/options.h"

namespace syncopate {

class Stragglers {
 public:
  Stragglers(const Options& options, int rank);

  // Virtual seconds of this worker's step (its own count), all in all:
  // compute.step_s / speed * factor + delays.
  double virtual_s(int64_t step) const;

  // MPI: sleeps for (factor - 1) * the computing of the step before + delays,
  // in front of a step, so that nothing of it is sent too early.
  void sleep(int64_t step, double computed_s) const;

 private:
  double delays_s(int64_t step) const;

  StragglerOptions options_;
  uint64_t seed_;
  int rank_;
  double step_s_, factor_;
};

}  // namespace syncopate
