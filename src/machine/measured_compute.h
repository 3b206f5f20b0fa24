// Describes measured step times as an input does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/endpoint.h"
#include "config/options.h"
#include "machine/bench_step.h"

namespace syncopate {

// Returns every worker's value, on all workers. Collective.
std::vector<double> values_of_all(Endpoint& endpoint, double mine);

// Numbers as a key's value: "0.5, 2".
std::string list_of(const std::vector<double>& values);

// (largest - smallest) / median.
double relative_range(const std::vector<double>& values);

// The lines of [compute] that differ from its defaults: "step_s = 0.0123".
std::vector<std::string> compute_lines(const ComputeOptions& compute);

// The forward and backward passes of all workers.
struct MeasuredCompute {
  std::vector<double> step_s;  // means, by worker
  // Standard deviations relative to the means, of the workers that timed steps.
  std::vector<double> spread;
  // [compute] without what lies within the noise: equal workers have no speeds,
  // and steps that hardly vary have no law. All workers have the median spread.
  ComputeOptions options;

  std::vector<std::string> lines() const { return compute_lines(options); }
};

// `times` are those of the calling worker. A worker that timed no step counts
// as the median of the others. Fails on all workers if none timed a step.
// Collective.
MeasuredCompute measured_compute(Endpoint& endpoint, const StepTimes& times);

}  // namespace syncopate
