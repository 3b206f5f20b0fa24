#include "sync/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/world.h"

namespace syncopate {
namespace {

struct ControlBytes {
  double mean = 0;  // of all workers
  int64_t most = 0;
};

// Control bytes that a worker sends per step.
ControlBytes control_bytes(int workers, int64_t steps) {
  std::vector<int64_t> sent(workers);
  make_inproc_world(workers, {})->run([&](Endpoint& endpoint) {
    Lockstep pace(endpoint, endpoint.world_group(), 1);
    pace.begin({.from = 0, .until = steps * workers});
    while (!pace.next({}).stop) {
    }
    pace.quiesce();
    sent[endpoint.rank()] =
        endpoint.traffic().bytes_sent[static_cast<int>(Traffic::kControl)];
  });
  ControlBytes bytes;
  for (const int64_t of_worker : sent) {
    bytes.mean += static_cast<double>(of_worker) / (steps * workers);
    bytes.most = std::max(bytes.most, of_worker / steps);
  }
  return bytes;
}

// Agreeing on a step costs N - 1 numbers up a tree and as many down, however
// many workers there are; the root sends one to each of its log2 N children.
TEST(Lockstep, ControlTrafficPerWorkerDoesNotGrowWithTheirNumber) {
  for (const int workers : {16, 256, 4096}) {
    const ControlBytes bytes = control_bytes(workers, 3);
    EXPECT_GT(bytes.mean, 0) << workers;
    EXPECT_LE(bytes.mean, 2 * 8) << workers;
    EXPECT_LE(bytes.most, 8 * 12) << workers;
  }
}

// The furthest of the workers of one process takes no further step, and all
// stop there, long before they would have agreed on it.
TEST(Lockstep, ProcessStopsWhereItsFurthestWorkerIs) {
  constexpr int kWorkers = 4;
  SharedStop shared;
  for (const int64_t from : {0, 400}) {
    std::vector<int64_t> taken(kWorkers);
    make_inproc_world(kWorkers, {})->run([&](Endpoint& endpoint) {
      const int rank = endpoint.rank();
      Lockstep pace(endpoint, endpoint.world_group(), 100, 0, &shared);
      pace.begin({.from = from, .until = from + 4000});
      // Worker 1 asks when it has taken 10 steps; worker 0 is twice as fast.
      for (;;) {
        const Turn turn = pace.next({.stop = rank == 1 && taken[1] == 10});
        if (turn.stop) break;
        EXPECT_EQ(turn.worker_steps, from + taken[rank] * kWorkers);
        ++taken[rank];
        endpoint.advance(rank == 0 ? 1 : 2);
      }
      pace.quiesce();
    });
    for (const int64_t steps : taken) EXPECT_EQ(steps, taken[0]);
    EXPECT_GE(taken[0], 20);
    EXPECT_LE(taken[0], 21);
  }
}

}  // namespace
}  // namespace syncopate
