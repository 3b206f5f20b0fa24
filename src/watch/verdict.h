// What is said of a rank that is gone or does not get on, and when.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "watch/ring.h"

namespace syncopate {

struct WatchLimits {
  bool gives_verdicts = true;
  bool judges_hangs = false;  // else only the dead and the stopped are named
  double step_timeout_s = 0;  // 0: ten times the median step, 30 at least
  double io_timeout_s = 600;  // of all that is not a step
};

// How long a worker may make no progress at `now`; while a median is missing
// (0), a step has the time of I/O.
double limit_s(const WatchLimits& limits, Stage stage, double median_step_s);

// Where an answer of every rank is in (by rank; nullopt: none yet) and one of
// them is stuck for good: who. A rank that works on its own for longer than
// its limit hangs; where all wait for each other and not a message has moved
// for `limit_s`, the one that is furthest behind. Who works within its limit,
// or moves messages, keeps all others from being judged.
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
