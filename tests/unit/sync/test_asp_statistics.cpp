// asp.batchnorm = shared, averaged: running statistics are variables of the
// server.
#include <algorithm>
#include <cmath>

#include "unit/sync/reference.h"
#include "unit/sync/server_toy.h"

namespace syncopate {
namespace {

using test::ToyRun;

// A moving average of a batch's statistics, as in BatchNorm.
void moving_average(int rank, int64_t step, std::span<float> statistics) {
  for (size_t i = 0; i < statistics.size(); ++i) {
    const float batch = std::sin(
        static_cast<float>(7 * rank + 3 * step + static_cast<int64_t>(i) + 1));
    statistics[i] = 0.9f * statistics[i] + 0.1f * batch;
  }
}

ToyRun shared_run(const std::string& scheme = "asp") {
  ToyRun run = test::run_of(scheme);
  run.sync.asp.batchnorm = ServerStatistics::kShared;
  run.num_buffers = 11;
  run.statistics = moving_average;
  return run;
}

void expect_equal_statistics(const test::ToyResult& result) {
  for (const auto& of_rank : result.buffers)
    EXPECT_EQ(of_rank, result.buffers[0]);
}

TEST(SharedStatistics, OfOneWorkerAreSequential) {
  for (const char* scheme : {"asp", "ssp"})
    for (const int64_t every : {0, 1, 4}) {
      ToyRun run = shared_run(scheme);
      if (every == 4) run.sync.asp.batchnorm = ServerStatistics::kAveraged;
      run.steps = 50;
      run.boundary_every = every;
      const auto server = test::train_toy(1, run);
      run.sync = {};
      const auto alone = test::train_toy(1, run);
      EXPECT_EQ(server.buffers, alone.buffers);
      EXPECT_EQ(server.parameters, alone.parameters);
    }
}

// What the server holds after pushes in the order of arrival: of a worker whose
// batch's statistics b turned the pulled p into p + c (b - p),
//
//   shared: s <- s + c (b - p). Tensor2Tensor's layers see a copy of a variable
//     that was read when the step began, with the variable's assign_sub
//     (expert_utils.py, _add_variable_proxy_methods), and BatchNormalization
//     computes the change from what it sees (_assign_moving_average).
//   averaged: s <- s + c (b - s). TensorFlow alone computes the change where
//   the
//     variable is (there, colocate_with).
//
// c is 0.1, of k accumulated batches 1 - 0.9^k.
TEST(SharedStatistics, FollowTensor2TensorOrTensorFlow) {
  const auto kinds = {ServerStatistics::kShared, ServerStatistics::kAveraged};
  for (const ServerStatistics kind : kinds)
    for (const auto& [servers, batches] :
         {std::pair{0, 1}, {1, 1}, {2, 1}, {2, 3}}) {
      ToyRun run = shared_run();
      run.sync.asp.batchnorm = kind;
      run.sync.asp.servers = servers;
      run.batches_per_step = batches;
      run.statistics = [&](int rank, int64_t step, std::span<float> s) {
        for (int k = 0; k < batches; ++k) moving_average(rank, step, s);
      };
      run.steps = 12;
      run.step_s = {1, 1.3, 0.57, 3.1};  // no two arrive at the same time
      const auto workers = static_cast<int>(run.step_s.size());

      // Slices travel with those of the parameters.
      const int64_t elems = test::start_of(run, 1)[0].size();
      const int64_t shards = servers > 0 ? servers : workers;
      const double c = 1 - std::pow(0.9, batches);
      std::vector<double> server(run.num_buffers, 0.0);
      std::vector<int64_t> steps;
      for (int64_t shard = 0; shard < shards; ++shard) {
        const double after =
            test::pushed_after(run, test::shard_begin(elems, shards, shard));
        const auto slice = [&](int64_t s) {
          return test::shard_begin(run.num_buffers, shards, s);
        };
        std::vector<std::vector<double>> pulled(workers, server);
        steps.assign(workers, 0);
        test::in_order_of_arrival(run, after, [&](int rank, int64_t) {
          for (int64_t i = slice(shard); i < slice(shard + 1); ++i) {
            const double batch = std::sin(
                static_cast<float>(7 * rank + 3 * steps[rank] + i + 1));
            const double seen =
                kind == ServerStatistics::kShared ? pulled[rank][i] : server[i];
            server[i] += c * (batch - seen);
          }
          ++steps[rank];
          pulled[rank] = server;
        });
      }

      const auto result = test::train_toy(workers, run);
      EXPECT_EQ(result.steps, steps);
      expect_equal_statistics(result);
      test::expect_near({result.buffers[0]}, {server}, 1e-6);
      run.sync.asp.batchnorm = ServerStatistics::kLocal;
      const auto local = test::train_toy(workers, run);
      EXPECT_EQ(local.parameters, result.parameters);
      EXPECT_NE(local.buffers[0], local.buffers[1]);
    }
}

// A step that was skipped restores what the worker pulled, and leaves the
// server's statistics to the others.
TEST(SharedStatistics, SkippedStepsLeaveThem) {
  ToyRun run = shared_run();
  run.sync.asp.batchnorm = ServerStatistics::kAveraged;
  run.sync.asp.servers = 1;
  run.steps = 12;
  run.step_s = {1, 1.3};
  run.statistics = [](int rank, int64_t step, std::span<float> statistics) {
    if (rank == 1) moving_average(0, step, statistics);
  };
  const auto with_skipped = test::train_toy(2, run);
  std::vector<double> expected(run.num_buffers, 0.0);
  for (int64_t step = 0; step < with_skipped.steps[1]; ++step)
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = 0.9 * expected[i] +
                    0.1 * std::sin(static_cast<float>(
                              3 * step + static_cast<int64_t>(i) + 1));
  test::expect_near({with_skipped.buffers[0]}, {expected}, 1e-6);
}

// However many workers push, averaged statistics lie between those of the
// batches, so that a variance cannot become negative. Shared ones do not.
TEST(SharedStatistics, AveragedOnesLieBetweenThoseOfTheBatches) {
  const auto range = [](ServerStatistics kind) {
    ToyRun run = shared_run();
    run.sync.asp.batchnorm = kind;
    run.steps = 40;
    run.statistics = [](int, int64_t step, std::span<float> statistics) {
      const float batch = step == 0 ? 10 : 1;
      for (float& value : statistics) value = 0.9f * value + 0.1f * batch;
    };
    const auto result = test::train_toy(24, run);
    const auto [low, high] =
        std::minmax_element(result.buffers[0].begin(), result.buffers[0].end());
    return std::pair{*low, *high};
  };
  const auto [low, high] = range(ServerStatistics::kAveraged);
  EXPECT_GE(low, 0);
  EXPECT_LE(high, 10);
  EXPECT_GT(range(ServerStatistics::kShared).second, 100);
}

// Fewer statistics than shards, and none at all.
TEST(SharedStatistics, MayBeFewerThanShards) {
  for (const int64_t num : {0, 1, 3}) {
    ToyRun run = shared_run();
    run.num_buffers = num;
    const auto result = test::train_toy(5, run);
    test::expect_equal_replicas(result);
    expect_equal_statistics(result);
  }
}

TEST(SharedStatistics, GoOnToTheBit) {
  for (const char* scheme : {"asp", "ssp"})
    for (const int workers : {1, 2, 3, 4, 6}) {
      ToyRun run = shared_run(scheme);
      if (workers == 3) run.sync.wire = Wire::kBf16;
      if (workers == 4) run.sync.asp.servers = 3;
      run.boundary_every = 3;
      run.step_time = test::uneven(5);
      expect_equal_statistics(test::expect_resumes(
          workers, run, {6}, {.latency_s = 0.2, .bytes_per_s = 1000}));
    }
}

TEST(SharedStatistics, AreReplayedToTheBit) {
  const test::OwnFolder folder;
  for (const char* scheme : {"asp", "ssp"}) {
    ToyRun run = shared_run(scheme);
    run.sync.asp.record = true;
    run.boundary_every = 5;
    run.step_time = test::uneven(5);
    const auto recorded = test::train_toy(4, run);
    run.sync.asp.record = false;
    run.step_time = nullptr;
    const auto other = test::train_toy(4, run);
    EXPECT_NE(other.buffers, recorded.buffers);
    run.sync.asp.replay = folder / "order.h5";
    EXPECT_EQ(test::train_toy(4, run).buffers, recorded.buffers);
  }
}

// With s = 0 the changes of a clock are hidden until all workers' have arrived.
TEST(SharedStatistics, AreHeldBackBySsp) {
  ToyRun run = shared_run("ssp");
  run.sync.ssp.bound = 0;
  run.step_time = test::uneven(5);
  std::vector<std::vector<float>> seen(run.steps);
  run.statistics = [&](int rank, int64_t step, std::span<float> statistics) {
    const std::vector<float> mine(statistics.begin(), statistics.end());
    if (seen[step].empty()) seen[step] = mine;
    EXPECT_EQ(mine, seen[step]) << rank << ", step " << step;
    moving_average(rank, step, statistics);
  };
  test::train_toy(3, run);
}

// The server starts from the averages that bsp leaves, and all workers get its
// final values.
TEST(SharedStatistics, AreHandedOver) {
  ToyRun run = shared_run("sync_switch");
  run.steps = 30;
  run.sync.sync_switch.order = {"bsp", "asp", "bsp"};
  run.sync.sync_switch.fractions = {0.3, 0.4, 0.3};
  run.step_time = test::uneven(5);
  run.boundary_every = 5;
  test::expect_resumes(3, run, {5, 10, 15, 20, 25});
  std::vector<std::vector<std::vector<float>>> at(11);
  run.boundary_every = 3;
  run.at_boundary = [&](int, int64_t worker_steps, Scheme&, Replica& replica) {
    OnHost host(replica.buffers);
    at[worker_steps / 9].emplace_back(host.values().begin(),
                                      host.values().end());
  };
  test::train_toy(3, run);
  // Workers have the server's statistics during asp, their own during bsp.
  EXPECT_NE(at[2][0], at[2][1]);
  EXPECT_EQ(at[5][0], at[5][1]);
  EXPECT_NE(at[9][0], at[9][1]);
}

}  // namespace
}  // namespace syncopate
