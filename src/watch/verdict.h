// Decides when a rank counts as lost or hung, and words the report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "watch/watch_ring.h"

namespace syncopate {

struct WatchLimits {
  bool gives_verdicts = true;
  bool judges_hangs = false;  // if false, only dead and stopped ranks are named
  double step_timeout_s = 0;  // 0: ten times the median step, at least 30
  double io_timeout_s = 600;  // for everything but steps
};

// Returns how long a worker may make no progress. Without a median (0), a step
// gets the I/O limit.
double limit_s(const WatchLimits& limits, Stage stage, double median_step_s);

// Finds a rank that is stuck for good, once every rank has answered (by rank;
// nullopt: not yet). A rank that works on its own for longer than its limit
// hangs. If all wait for each other and no message has moved for `limit_s`, the
// rank furthest behind hangs. A rank that works within its limit, or moves
// messages, keeps all others from being judged.
struct Hang {
  int rank = -1;
  bool do_all_wait = false;
};
std::optional<Hang> judge_hang(std::span<const std::optional<State>> states,
                               double limit_s);

// "rank 2 (host n2, pid 4711)"
std::string name_of_rank(int rank, const RankCard& card);
// " at step 120, stage collective, last operation \"all-reduce\""
std::string place_of(const State& state);

}  // namespace syncopate
