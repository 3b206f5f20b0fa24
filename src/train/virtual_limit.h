// run.virtual_limit_s: how many steps fit into a virtual time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "train/engine.h"

namespace syncopate {

// More are refused: finding out would take hours.
inline constexpr int64_t kMostLimitedSteps = 10'000'000;

// The length of a run, in steps of a worker, and when the last worker ends.
struct TimedLength {
  int64_t steps = 0;
  Time ends_at = 0;
};

// Returns the length of at least `shortest` steps that ends within the limit
// while one more step does not; if even the shortest does not, returns that
// one. If more than `most` steps fit, returns a larger number.
// `ends_at` says when a run of so many steps ends: later with more steps, or
// nearly so (the number found then depends on the lengths that were tried). It
// is called a few times near the result, and otherwise for lengths that are
// much shorter.
TimedLength longest_within(Time limit_s,
                           int64_t shortest,
                           int64_t most,
                           const std::function<Time(int64_t)>& ends_at);

// Finds the longest run within the engine's run.virtual_limit_s by simulating
// it, and says in the log if that takes a while. The engine must have been
// built with EngineUse::kSimulate; its plan is lost. Throws Error(kBadInput) if
// no run is short enough, or if the run cannot be simulated.
TimedLength longest_within_limit(Engine& engine, Log& log);

}  // namespace syncopate
