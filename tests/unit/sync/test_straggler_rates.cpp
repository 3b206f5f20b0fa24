// How reliably Sync-Switch finds stragglers and spares equal workers: whole
// runs in virtual time over many seeds, with noise in every worker's
// computation and jitter in every message. The detector gets the workers' own
// measurements.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/rng.h"
#include "unit/sync/switch_toy.h"

namespace syncopate {
namespace {

using namespace switch_toy;

// A share of the runs is asked for: of more runs under EXHAUSTIVE=1.
const int num_seeds = std::getenv("EXHAUSTIVE") != nullptr ? 100 : 40;
constexpr double kShareFound = 0.95;
constexpr int kWorkers = 8;

// 0.1 ms, 1 Gbit/s, and long-tailed jitter with a mean of 1 ms, as from queues.
// The links of `late` workers have `late_s` more latency.
NetworkCost jittery(uint64_t seed,
                    const std::vector<int>& late = {},
                    double late_s = 0) {
  NetworkCost cost{.latency_s = 1e-4, .bytes_per_s = 125e6};
  cost.link = [=](int rank, Time now) {
    Rng rng(seed, Purpose::kTest, static_cast<uint64_t>(rank),
            std::bit_cast<uint64_t>(now));
    const double jitter_s = -1e-3 * std::log1p(-rng.uniform());
    const bool is_late =
        std::find(late.begin(), late.end(), rank) != late.end();
    return NetworkCost::Link{jitter_s + (is_late ? late_s : 0)};
  };
  return cost;
}

// The workers removed before their step 61; bsp lasts longer for the others.
std::vector<int> removed_within_60_steps(ToyRun run, const NetworkCost& cost) {
  run.steps = 72;
  const Seen seen(kWorkers, run, cost);
  std::vector<int> removed;
  for (int rank = 0; rank < kWorkers; ++rank) {
    const auto& rows = seen.series[rank];
    const auto bsp_steps =
        std::count_if(rows.begin(), rows.end(),
                      [](const auto& row) { return row[Seen::kPhase] == 0; });
    if (bsp_steps <= 60) removed.push_back(rank);
  }
  return removed;
}

// One of eight workers is slower by a factor of 1.5, with 20 % noise.
TEST(StragglerRates, ASlowWorkerIsFound) {
  int found = 0;
  for (int seed = 1; seed <= num_seeds; ++seed) {
    ToyRun run = noisy(SwitchPolicy::kElastic, 1, 0.2, seed);
    const int slow = seed % kWorkers;
    run.step_time = [slow, equal = run.step_time](int rank, int64_t step) {
      return (rank == slow ? 1.5 : 1) * equal(rank, step);
    };
    if (removed_within_60_steps(run, jittery(seed)) == std::vector{slow})
      ++found;
  }
  EXPECT_GE(found, kShareFound * num_seeds);
}

// 30 ms more on the links of two of eight workers, for both clusters of the
// published runs: 3.93 steps per second without stragglers, and 1.24 s per
// step.
TEST(StragglerRates, SlowLinksAreFound) {
  struct Cluster {
    double step_s, noise;
  };
  for (const Cluster& cluster : {Cluster{1 / 3.93, 0.2}, Cluster{1.24, 0.1}}) {
    int found = 0;
    for (int seed = 1; seed <= num_seeds; ++seed) {
      const ToyRun run =
          noisy(SwitchPolicy::kElastic, cluster.step_s, cluster.noise, seed);
      const int first = seed % kWorkers;
      const int second = (seed + 1 + seed / 8 % 7) % kWorkers;
      const std::vector<int> slow = {std::min(first, second),
                                     std::max(first, second)};
      if (removed_within_60_steps(run, jittery(seed, slow, 0.03)) == slow)
        ++found;
    }
    EXPECT_GE(found, kShareFound * num_seeds) << cluster.step_s;
  }
}

// Runs of 4, 8 and 16 workers with little noise and much.
TEST(StragglerRates, EqualWorkersStay) {
  for (const int workers : {4, 8, 16}) {
    for (const double noise : {0.001, 0.02, 0.05, 0.2}) {
      for (int seed = 1; seed <= num_seeds / 4; ++seed) {
        ToyRun run = noisy(SwitchPolicy::kElastic, 1 / 3.93, noise, seed);
        run.steps = 70;
        const Seen seen(workers, run, jittery(seed));
        EXPECT_EQ(seen.series[0].back()[Seen::kDetections], 0)
            << workers << " " << noise << " " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace syncopate
