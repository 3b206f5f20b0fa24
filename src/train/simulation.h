// Runs the schemes, messages and clocks of a run without computing anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sync/scheme.h"
#include "train/engine.h"

namespace syncopate {

class RunTrace;

// What workers have done by the end of a simulation.
struct SimulatedWork {
  int64_t steps = 0;
  double compute_s = 0;  // forward and backward passes
  double update_s = 0;   // computations after them
  SyncTimes sync;
  Time ended_at = 0;
  int64_t bytes = 0, messages = 0;  // of the scheme
  double samples = 0;
  // Memory of parameters, gradients, optimizer and scheme: the mean over the
  // workers.
  int64_t state_bytes = 0;
  // ModelledSums::error() of sums that were computed instead of sent; 0: none.
  double sums_error = 0;

  void add(const SimulatedWork& other);
};

// Throws Error(kBadInput) if the input needs values that a simulation does not
// have.
void check_simulation(const Engine& engine);

// How closely a simulation follows the run that it stands for.
enum class Fidelity : uint8_t {
  // In one segment: free-running schemes proceed as without evaluations and
  // checkpoints. Sums are computed where links are alike; over many steps,
  // concurrent ones then take the same time within 2%, and by pairs among more
  // than ModelledSums::kExactWorld workers within 10%, of changing groups
  // within 15%. Those of groups are sent if they have few messages.
  kRate,
  // With the run's boundaries. Sums are computed where links are alike, other
  // than binary blocks among few workers: concurrent ones within
  // SimulatedWork::sums_error.
  kRun,
  // With all messages, and the run's boundaries: virtual times are the run's.
  kExact,
};

// Whether the scheme sums around rings over links of different speeds, of which
// each message is simulated: about 2 N^2 of them among N workers.
bool follows_rings(const Engine& engine);

// Takes the steps of the engine's plan with all workers in this process and
// returns what each has done. The engine must have been built with
// EngineUse::kSimulate. `trace` may be null.
std::vector<SimulatedWork> simulate(Engine& engine,
                                    Fidelity fidelity,
                                    RunTrace* trace = nullptr);

}  // namespace syncopate
