// Times messages and collectives between the workers of a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "app/command_line.h"
#include "comm/collectives.h"
#include "run/session.h"
#include "train/engine.h"

namespace syncopate {

struct CommBench {
  std::vector<int64_t> bytes = {8, 4 << 10, 256 << 10, 4 << 20, 64 << 20};
  std::vector<CollectiveAlgorithm> collectives;
  std::optional<int64_t> repeats;  // absent: 51, above 1 MiB 7
};

// From --bytes=N,N,... (multiples of 4), --by=KEYWORD,... and --repeats=N:
// Error(kUsage), or Error(kBadInput) for an unknown collective.
CommBench comm_bench(const CommandLine& line);

// Prints a row for each size and method. Seconds are the slowest worker's from
// a barrier on, as the median over repeats; for point to point, half of a round
// trip between the first two workers. Bus MB/s is the rate of a worker's link
// if the collective sent the minimum of 2 (N-1)/N of its bytes.
void run_comm_bench(Session& session,
                    const Engine& engine,
                    const CommBench& bench);

}  // namespace syncopate
