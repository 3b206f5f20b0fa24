// Measures the cluster on which an MPI job runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/options.h"
#include "run/session.h"
#include "train/engine.h"

namespace syncopate {

struct Cluster {
  ComputeOptions compute;
  NetworkOptions network;
  std::vector<std::string> lines;  // the figures as text

  std::vector<std::string> input() const;  // the same as lines of an input
};

// Times forward and backward passes on every rank, without communication, and
// messages between pairs of ranks: in rounds of disjoint pairs, each rank with
// every other one (above 64 ranks, or over links on which this would take too
// long, with a sample of them). Takes about ten seconds for the steps, and less
// than a minute in total. `engine` must have been built with EngineUse::kTrain
// and a scheme that does not communicate during the passes. Collective; returns
// the same on all ranks.
Cluster probe_cluster(Session& session, Engine& engine);

}  // namespace syncopate
