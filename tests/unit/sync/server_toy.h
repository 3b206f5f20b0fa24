// Helpers of the tests of parameter-server schemes: runs whose parameters count
// updates, workers with varying speeds, a folder for order.h5.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <queue>
#include <string>
#include <tuple>

#include "support/scratch_folder.h"
#include "unit/sync/toy_run.h"

namespace syncopate::test {

// Each worker's update adds 1 to the element of its rank: x[r] is how many
// updates of worker r it holds.
inline ToyRun counting_run(const std::string& scheme, int workers) {
  ToyRun run = run_of(scheme);
  run.optimizer.lr = 1;
  run.tensors = {workers, 5};
  run.start = [](int, int64_t) { return 0.0f; };
  run.gradient = [](int rank, int64_t, std::span<const float>,
                    std::span<float> g) { g[rank] = -1; };
  return run;
}

// For tests of both ways of pulling.
inline const auto kBothPullings =
    ::testing::Values(Pulling::kAfterPush, Pulling::kBeforeStep);
inline std::string name_of_pulling(
    const ::testing::TestParamInfo<Pulling>& info) {
  return info.param == Pulling::kAfterPush ? "AfterPush" : "BeforeStep";
}

// Step times between 0.1 and 1, some steps 20 times that.
inline std::function<double(int, int64_t)> uneven(uint64_t seed) {
  return [seed](int rank, int64_t step) {
    uint64_t h = seed * 0x9E3779B97F4A7C15u +
                 static_cast<uint64_t>(rank) * 7919 +
                 static_cast<uint64_t>(step) * 104729;
    h ^= h >> 31;
    h *= 0xBF58476D1CE4E5B9u;
    h ^= h >> 27;
    h *= 0x94D049BB133111EBu;
    h ^= h >> 31;
    const double u = static_cast<double>(h >> 11) * 0x1p-53;
    return (0.1 + 0.9 * u) * (h % 8 == 0 ? 20 : 1);
  };
}

// Where shards begin, of `elems` elements in `shards` parts as even as can be.
inline int64_t shard_begin(int64_t elems, int64_t shards, int64_t shard) {
  return elems * shard / shards;
}

// The part of a ToyWorker's step after which all gradients from `offset` on are
// final and sent: quarters of the range, of which whole buckets are sent.
inline double pushed_after(const ToyRun& run, int64_t offset) {
  const int64_t elems = model_of(run).parameters().num_elems();
  const int64_t bucket =
      std::max<int64_t>(0, elems - (elems - offset + run.bucket_elems - 1) /
                                       run.bucket_elems * run.bucket_elems);
  int64_t part = 1;
  while (elems - elems * part / 4 > bucket) ++part;
  return static_cast<double>(part) / 4;
}

// Calls serve(rank, ticket) in the order in which pushes arrive at a shard over
// free links: each worker takes run.step_s per step and pushes `after` this
// part of it, no two at one moment. Tickets count the steps as they are handed
// out. Calls begin(rank) in between, when a worker begins a step.
inline void in_order_of_arrival(
    const ToyRun& run,
    double after,
    const std::function<void(int rank, int64_t ticket)>& serve,
    const std::function<void(int rank)>& begin = [](int) {}) {
  const auto workers = static_cast<int>(run.step_s.size());
  // Negative time, rank, ticket, whether it is a push or the end of the step.
  std::priority_queue<std::tuple<double, int, int64_t, bool>> events;
  int64_t given = 0;
  const auto give = [&](int rank, double now) {
    if (given == run.steps * workers) return;
    const int64_t ticket = given++;
    begin(rank);
    events.push({-(now + after * run.step_s[rank]), rank, ticket, true});
    events.push({-(now + run.step_s[rank]), rank, ticket, false});
  };
  for (int rank = 0; rank < workers; ++rank) give(rank, 0);
  // A push at the end of a step comes before the next step is handed out.
  while (!events.empty()) {
    const auto [time, rank, ticket, is_push] = events.top();
    events.pop();
    if (is_push)
      serve(rank, ticket);
    else
      give(rank, -time);
  }
}

// Checks that a counting_run has every update of every worker exactly once.
inline void expect_all_counted(const ToyResult& result, int64_t worker_steps) {
  expect_equal_replicas(result);
  for (size_t rank = 0; rank < result.steps.size(); ++rank)
    EXPECT_EQ(result.parameters[0][rank],
              static_cast<double>(result.steps[rank]));
  EXPECT_EQ(sum_of(result.steps), worker_steps);
}

// The working directory of a run without a directory: a temporary folder, which
// the destructor leaves and removes.
class OwnFolder : public ScratchFolder {
 public:
  OwnFolder() { std::filesystem::current_path(path()); }
  ~OwnFolder() { std::filesystem::current_path(before_); }

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
};

}  // namespace syncopate::test
