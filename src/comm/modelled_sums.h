// All-reduces of values that do not exist, in a simulation: how long they take
// is computed at once, without messages and tasks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "comm/collectives.h"

namespace syncopate {

class ModelledSums {
 public:
  // Up to this many workers, the messages of all members are followed.
  static constexpr int kExactWorld = 256;

  virtual ~ModelledSums() = default;

  // Whether it knows how long the algorithm takes in this world.
  virtual bool knows(CollectiveAlgorithm algorithm) const = 0;

  // The measured bound on the relative error of the time of many steps with the
  // sums so far, if several are in flight at once (tests/bench/README.md).
  virtual double error() const = 0;

  // This worker enters its group's next sum, as all members do in the same
  // order. It begins for the worker when the one kAtOnce before has ended.
  // Counts the traffic. Does not block. `at`, its time, may be ahead of that
  // of other workers.
  static constexpr int64_t kAtOnce = 4;
  virtual void enter(const Group& group,
                     Time at,
                     int64_t elems,
                     CollectiveAlgorithm algorithm,
                     Wire wire,
                     Traffic kind) = 0;

  // Waits until all sums that this worker has entered have ended.
  struct Times {
    // Intervals in which one was under way for this worker, all together; valid
    // until it enters another.
    std::span<const std::pair<Time, Time>> intervals;
    Time last_entered_at = 0;  // of all sums by all members
  };
  virtual Times finish() = 0;
};

}  // namespace syncopate
