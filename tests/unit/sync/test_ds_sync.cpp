// What averaging over the groups of DS-Sync does to replicas.
#include <cmath>
#include <utility>

#include "sync/ds_sync.h"
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

constexpr int kWorkers[] = {1, 2, 3, 4, 6, 8, 9, 16};

DsSyncOptions of_size(int64_t group) {
  DsSyncOptions options;
  options.group = group;
  return options;
}

ToyRun ds_sync_run() {
  ToyRun run;
  run.sync.scheme = "ds_sync";
  return run;
}

std::string obstacle_of(const DsSyncOptions& options, int workers) {
  SyncOptions sync;
  sync.scheme = "ds_sync";
  sync.ds_sync = options;
  const OptimizerOptions optimizer;
  const test::ToyModel model({4}, 0);
  return scheme_obstacle(
      {sync, optimizer, model.parameters(), workers, /*total_steps=*/10});
}

TEST(DsSync, RefusesWhatDoesNotMix) {
  EXPECT_EQ(obstacle_of({}, 7), "");
  EXPECT_EQ(obstacle_of(of_size(3), 6), "");
  const auto is_about = [](const std::string& line, const std::string& key) {
    return line.starts_with(key) && line.find("expected") != std::string::npos;
  };
  for (const std::vector<double>& radices :
       {std::vector<double>{2, 3}, {1, 4}, {4, 1}, {-2, -2}, {2.5, 1.6}})
    EXPECT_TRUE(
        is_about(obstacle_of({.radices = radices}, 4), "ds_sync.radices: "));
  for (const int64_t group : {-2, 1, 3, 8})
    EXPECT_TRUE(is_about(obstacle_of(of_size(group), 4), "ds_sync.group: "));
  EXPECT_TRUE(is_about(obstacle_of({.radices = {2, 2}, .group = 2}, 4),
                       "ds_sync.group: "));
  ToyRun run = ds_sync_run();
  run.steps_per_epoch = 1;  // phase 1 would never come
  EXPECT_THROW(test::train_toy(4, run), Error);
  run.sync.ds_sync.restart = PhaseRestart::kNever;
  EXPECT_NO_THROW(test::train_toy(4, run));
}

float spread_start(int rank, int64_t i) {
  return std::sin(static_cast<float>(7 * rank + i));
}

std::vector<double> mean_over_workers(
    const std::vector<std::vector<double>>& values) {
  std::vector<double> mean(values[0].size(), 0.0);
  for (const auto& worker : values)
    for (size_t i = 0; i < mean.size(); ++i)
      mean[i] += worker[i] / static_cast<double>(values.size());
  return mean;
}

TEST(DsSync, ReachesConsensusWithoutSteps) {
  for (const int N : kWorkers)
    for (const Averaging place :
         {Averaging::kBeforeForward, Averaging::kAfterUpdate}) {
      ToyRun run = ds_sync_run();
      run.sync.ds_sync.place = place;
      run.optimizer.lr = 0;
      run.start = spread_start;
      std::vector<std::vector<double>> start(N);
      for (int rank = 0; rank < N; ++rank)
        for (int i = 0; i < 48; ++i)
          start[rank].push_back(spread_start(rank, i));
      const std::vector<double> mean = mean_over_workers(start);
      const int64_t num_phases = std::ssize(ds_sync_phases({}, N));
      for (run.steps = 1; run.steps <= num_phases; ++run.steps) {
        const auto result = test::train_toy(N, run);
        const auto now = mean_over_workers(result.parameters);
        for (size_t i = 0; i < mean.size(); ++i)
          EXPECT_NEAR(now[i], mean[i], 1e-6);
        if (run.steps < num_phases) {
          EXPECT_NE(result.parameters[0], result.parameters[N - 1]);
          continue;
        }
        for (const auto& worker : result.parameters)
          for (size_t i = 0; i < mean.size(); ++i)
            EXPECT_NEAR(worker[i], mean[i], 1e-6) << N;
      }
    }
}

// The recursion of the header in double, with momentum.
std::vector<std::vector<double>> by_hand(int N, const ToyRun& run) {
  std::vector<Partition> phases = ds_sync_phases(run.sync.ds_sync, N);
  std::vector<std::vector<double>> x(N, std::vector<double>(48)), m = x;
  for (int rank = 0; rank < N; ++rank)
    for (int i = 0; i < 48; ++i) x[rank][i] = run.start(rank, i);
  const auto average = [&](int64_t step) {
    const auto& groups = phases[ds_sync_phase(
        run.sync.ds_sync, step, run.steps_per_epoch, std::ssize(phases))];
    for (const auto& group : groups)
      for (int i = 0; i < 48; ++i) {
        double sum = 0;
        for (const int j : group) sum += x[j][i];
        for (const int j : group) x[j][i] = sum / std::ssize(group);
      }
  };
  for (int64_t step = 0; step < run.steps; ++step) {
    if (run.sync.ds_sync.place == Averaging::kBeforeForward) average(step);
    for (int rank = 0; rank < N; ++rank) {
      const std::vector<float> now(x[rank].begin(), x[rank].end());
      std::vector<float> gradient(48);
      test::quadratic_gradient(rank, step, now, gradient);
      for (int i = 0; i < 48; ++i) {
        m[rank][i] = run.optimizer.momentum * m[rank][i] + gradient[i];
        x[rank][i] -= run.optimizer.lr * m[rank][i];
      }
    }
    if (run.sync.ds_sync.place == Averaging::kAfterUpdate) average(step);
  }
  return x;
}

TEST(DsSync, FollowsItsRecursion) {
  for (const int N : kWorkers)
    for (const Averaging place :
         {Averaging::kBeforeForward, Averaging::kAfterUpdate})
      for (const PhaseRestart restart :
           {PhaseRestart::kEpoch, PhaseRestart::kNever}) {
        ToyRun run = ds_sync_run();
        run.sync.ds_sync.place = place;
        run.sync.ds_sync.restart = restart;
        run.optimizer.momentum = 0.9;
        const auto expected = by_hand(N, run);
        const auto result = test::train_toy(N, run);
        for (int rank = 0; rank < N; ++rank)
          for (int i = 0; i < 48; ++i)
            ASSERT_NEAR(result.parameters[rank][i], expected[rank][i], 2e-5)
                << N << name_of(place) << name_of(restart);
      }
}

// One group of all is parameter averaging, which is bulk-synchronous SGD where
// there is no momentum.
TEST(DsSync, OfOneGroupAveragesAll) {
  ToyRun run = ds_sync_run();
  run.sync.ds_sync.place = Averaging::kAfterUpdate;
  for (const int N : {3, 4, 6}) {
    run.sync.ds_sync.radices = {static_cast<double>(N)};
    const auto result = test::train_toy(N, run);
    ToyRun bsp;
    const auto expected = test::train_toy(N, bsp);
    for (int rank = 0; rank < N; ++rank) {
      EXPECT_EQ(result.parameters[rank], result.parameters[0]);
      for (size_t i = 0; i < 48; ++i)
        EXPECT_NEAR(result.parameters[rank][i], expected.parameters[0][i],
                    1e-6);
    }
  }
}

TEST(DsSync, OfEqualDataIsOneWorker) {
  ToyRun run = ds_sync_run();
  run.optimizer.momentum = 0.9;
  run.gradient = [](int, int64_t step, std::span<const float> x,
                    std::span<float> g) {
    test::quadratic_gradient(0, step, x, g);
  };
  const auto alone = test::train_toy(1, run).parameters[0];
  for (const int N : {2, 4, 8})  // means of two equal values are exact
    for (const auto& worker : test::train_toy(N, run).parameters)
      EXPECT_EQ(worker, alone);
  for (const int N : {3, 6, 9, 16})
    for (const auto& worker : test::train_toy(N, run).parameters)
      for (size_t i = 0; i < alone.size(); ++i)
        EXPECT_NEAR(worker[i], alone[i], 1e-6);
}

TEST(DsSync, AveragesStatisticsWithTheParameters) {
  ToyRun run = ds_sync_run();
  run.sync.ds_sync.place = Averaging::kAfterUpdate;
  run.steps = 1;
  const auto first = [&] {
    std::vector<double> values;
    for (const auto& worker : test::train_toy(4, run).buffers)
      values.push_back(worker[0]);
    return values;
  };
  EXPECT_EQ(first(), (std::vector<double>{0.5, 0.5, 2.5, 2.5}));
  run.sync.ds_sync.batchnorm = Statistics::kLocal;
  EXPECT_EQ(first(), (std::vector<double>{0, 1, 2, 3}));
}

// 2 (g - 1) / g of a model by each worker at each step.
TEST(DsSync, SendsWhatTheFormulaSays) {
  for (const int N : kWorkers) {
    const ToyRun run = ds_sync_run();
    const std::vector<Partition> phases = ds_sync_phases({}, N);
    std::vector<int64_t> expected(N, 0);
    for (int64_t step = 0; step < run.steps; ++step)
      for (const auto& group :
           phases[ds_sync_phase({}, step, 5, std::ssize(phases))])
        for (size_t p = 0; p < group.size(); ++p)
          for (const int64_t elems : {48, 3})  // parameters, statistics
            expected[group[p]] += all_reduce_bytes(
                CollectiveAlgorithm::kRing, static_cast<int>(group.size()),
                static_cast<int>(p), elems, Wire::kF32);
    const auto result = test::train_toy(N, run);
    EXPECT_EQ(result.payload_bytes, expected) << N;
  }
  // 48 elements in pairs: (2 - 1) / 2 * 2 of 192 bytes, 10 times.
  ToyRun run = ds_sync_run();
  run.num_buffers = 0;
  EXPECT_EQ(test::train_toy(4, run).payload_bytes,
            std::vector<int64_t>(4, 1920));
}

TEST(DsSync, OnlyTheGroupOfASlowWorkerWaits) {
  ToyRun run = ds_sync_run();
  run.sync.ds_sync.place = Averaging::kAfterUpdate;
  bool is_first = true;
  run.step_time = [&](int rank, int64_t) {
    return rank == 3 && std::exchange(is_first, false) ? 4.0 : 1.0;
  };
  run.steps = 1;  // {0,1} {2,3}
  EXPECT_EQ(test::train_toy(4, run).clock, (std::vector<double>{1, 1, 4, 4}));
  is_first = true;
  run.steps = 2;  // then {0,3} {1,2}
  EXPECT_EQ(test::train_toy(4, run).clock, (std::vector<double>{5, 5, 5, 5}));
}

// Nor does agreeing about the end hold anybody up.
TEST(DsSync, GroupsFarFromASlowWorkerGoOn) {
  ToyRun run = ds_sync_run();
  run.sync.ds_sync.place = Averaging::kAfterUpdate;
  run.sync.ds_sync.radices = {2, 2, 2, 2};
  run.steps = 3;  // rank 0 meets ranks below 8
  bool is_first = true;
  run.step_time = [&](int rank, int64_t) {
    return rank == 0 && std::exchange(is_first, false) ? 40.0 : 1.0;
  };
  const auto clock = test::train_toy(16, run).clock;
  for (int rank = 0; rank < 16; ++rank)
    EXPECT_EQ(clock[rank], rank < 8 ? 42 : 3);
}

// Eighths of a second, so that sums are exact.
double random_step_s(int rank, int64_t step) {
  const auto mixed = static_cast<uint32_t>(rank * 7919 + step * 104729 + 17);
  return 0.125 * (8 + mixed * 2654435761u / 268435456u);
}

TEST(DsSync, RandomDelaysHoldUpGroupsAndChangeNothing) {
  for (const int N : {4, 6, 9, 16}) {
    ToyRun run = ds_sync_run();
    run.sync.ds_sync.place = Averaging::kAfterUpdate;
    run.steps = 7;  // fewer than what is agreed at a time
    run.optimizer.momentum = 0.9;
    const auto even = test::train_toy(N, run);
    std::vector<std::vector<double>> took(N);
    run.step_time = [&](int rank, int64_t step) {
      took[rank].push_back(random_step_s(rank, step));
      return took[rank].back();
    };
    const auto delayed = test::train_toy(N, run);
    EXPECT_EQ(delayed.parameters, even.parameters);
    std::vector<double> clock(N, 0.0);
    double all_waiting = 0;
    const std::vector<Partition> phases = ds_sync_phases({}, N);
    for (int64_t step = 0; step < run.steps; ++step) {
      double slowest = 0;
      for (int rank = 0; rank < N; ++rank) {
        clock[rank] += took[rank][step];
        slowest = std::max(slowest, took[rank][step]);
      }
      all_waiting += slowest;
      for (const auto& group :
           phases[ds_sync_phase({}, step, 5, std::ssize(phases))]) {
        double last = 0;
        for (const int j : group) last = std::max(last, clock[j]);
        for (const int j : group) clock[j] = last;
      }
    }
    EXPECT_EQ(delayed.clock, clock);
    EXPECT_LT(*std::max_element(clock.begin(), clock.end()), all_waiting);
  }
}

TEST(DsSync, GoesOnToTheBit) {
  for (const int N : {3, 4, 6, 9})
    for (const Averaging place :
         {Averaging::kBeforeForward, Averaging::kAfterUpdate})
      for (const PhaseRestart restart :
           {PhaseRestart::kEpoch, PhaseRestart::kNever}) {
        ToyRun run = ds_sync_run();
        run.sync.ds_sync.place = place;
        run.sync.ds_sync.restart = restart;
        run.optimizer.momentum = 0.9;
        const auto straight = test::train_toy(N, run);
        run.boundary_every = 3;
        for (const int64_t at : {0, 3, 6, 9}) {
          run.restart_at = at;
          const auto resumed = test::train_toy(N, run);
          EXPECT_EQ(resumed.parameters, straight.parameters);
          EXPECT_EQ(resumed.buffers, straight.buffers);
        }
      }
}

TEST(DsSync, AveragesAllAtTheEndIfAsked) {
  ToyRun run = ds_sync_run();
  const auto as_published = test::train_toy(4, run);
  EXPECT_NE(as_published.parameters[0], as_published.parameters[1]);
  run.sync.ds_sync.final_average = true;
  const auto averaged = test::train_toy(4, run);
  const auto mean = mean_over_workers(as_published.parameters);
  for (const auto& worker : averaged.parameters) {
    EXPECT_EQ(worker, averaged.parameters[0]);
    for (size_t i = 0; i < mean.size(); ++i)
      EXPECT_NEAR(worker[i], mean[i], 1e-6);
  }
}

// The library's own sums, in groups at the same time.
TEST(DsSync, ByTheLibrarysOwnCollective) {
  ToyRun run = ds_sync_run();
  const auto by_ring = test::train_toy(6, run).parameters;
  run.sync.collective = CollectiveAlgorithm::kNative;
  const auto native = test::train_toy(6, run).parameters;
  for (int rank = 0; rank < 6; ++rank)
    for (int i = 0; i < 48; ++i)
      EXPECT_NEAR(native[rank][i], by_ring[rank][i], 1e-6);
}

// Steps take time on the wire too: a pair's messages cost less than all's.
TEST(DsSync, GroupsCostLessThanAllOnTheWire) {
  const NetworkCost cost{.latency_s = 0.25, .bytes_per_s = 0};
  ToyRun run = ds_sync_run();
  run.sync.ds_sync.place = Averaging::kAfterUpdate;
  run.steps = 4;
  const double in_groups = test::train_toy(16, run, cost).clock[0];
  run.sync.ds_sync.radices = {16};
  const double of_all = test::train_toy(16, run, cost).clock[0];
  EXPECT_NEAR(in_groups, 4 * (1 + 2 * 3 * 0.25), 1e-9);
  EXPECT_NEAR(of_all, 4 * (1 + 2 * 15 * 0.25), 1e-9);
}

}  // namespace
}  // namespace syncopate
