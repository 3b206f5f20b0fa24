// The effect on replicas of averaging over the groups of DS-Sync.
#include <cmath>
#include <utility>

#include "sync/ds_sync.h"
#include "unit/sync/reference.h"

namespace syncopate {
namespace {

using test::ToyRun;

constexpr int kWorkers[] = {1, 2, 3, 4, 6, 8, 9, 16};

ToyRun ds_sync_run() {
  return test::run_of("ds_sync");
}

TEST(DsSync, RefusesWhatDoesNotMix) {
  const auto obstacle_of = [](const DsSyncOptions& options, int workers,
                              double steps_per_epoch = 0) {
    ToyRun run = ds_sync_run();
    run.sync.ds_sync = options;
    run.steps_per_epoch = steps_per_epoch;
    return test::obstacle_of(run, workers);
  };
  const auto is_about = [&](const std::string& key,
                            const DsSyncOptions& options) {
    const std::string line = obstacle_of(options, 4);
    return line.starts_with(key) && line.find("expected") != std::string::npos;
  };
  EXPECT_EQ(obstacle_of({}, 7), "");
  EXPECT_EQ(obstacle_of({.radices = {}, .group = 3}, 6), "");
  for (const std::vector<double>& radices :
       {std::vector<double>{2, 3}, {1, 4}, {4, 1}, {-2, -2}, {2.5, 1.6}})
    EXPECT_TRUE(is_about("ds_sync.radices: ", {.radices = radices}));
  for (const int64_t group : {-2, 1, 3, 8})
    EXPECT_TRUE(is_about("ds_sync.group: ", {.radices = {}, .group = group}));
  EXPECT_TRUE(is_about("ds_sync.group: ", {.radices = {2, 2}, .group = 2}));
  // Phase 1 would never come.
  EXPECT_TRUE(obstacle_of({}, 4, 1).starts_with("ds_sync.restart: is epoch"));
  EXPECT_EQ(obstacle_of({}, 4, 2), "");
  EXPECT_EQ(obstacle_of({.radices = {}, .restart = PhaseRestart::kNever}, 4, 1),
            "");
}

float spread_start(int rank, int64_t i) {
  return std::sin(static_cast<float>(7 * rank + i));
}

// Averaging at both places in a step, with and without a restart at each epoch.
std::vector<ToyRun> all_runs() {
  std::vector<ToyRun> runs;
  for (const Averaging place :
       {Averaging::kBeforeForward, Averaging::kAfterUpdate})
    for (const PhaseRestart restart :
         {PhaseRestart::kEpoch, PhaseRestart::kNever}) {
      ToyRun run = ds_sync_run();
      run.sync.ds_sync.place = place;
      run.sync.ds_sync.restart = restart;
      run.optimizer.momentum = 0.9;
      runs.push_back(run);
    }
  return runs;
}

TEST(DsSync, ReachesConsensusWithoutSteps) {
  for (const int N : kWorkers)
    for (const Averaging place :
         {Averaging::kBeforeForward, Averaging::kAfterUpdate}) {
      ToyRun run = ds_sync_run();
      run.sync.ds_sync.place = place;
      run.optimizer.lr = 0;
      run.start = spread_start;
      const test::Matrix mean = {test::mean_of(test::start_of(run, N))};
      const int64_t num_phases = std::ssize(ds_sync_phases({}, N));
      for (run.steps = 1; run.steps <= num_phases; ++run.steps) {
        const auto now = test::train_toy(N, run).parameters;
        test::expect_near({test::mean_of(now)}, mean, 1e-6);
        if (run.steps < num_phases)
          EXPECT_NE(now[0], now[N - 1]);
        else
          test::expect_near(now, test::Matrix(N, mean[0]), 1e-6);
      }
    }
}

// The recursion of the header in double, with momentum.
test::Matrix by_hand(int N, const ToyRun& run) {
  const DsSyncOptions& options = run.sync.ds_sync;
  const std::vector<Partition> phases = ds_sync_phases(options, N);
  test::Matrix x = test::start_of(run, N), m = test::zeros_like(x);
  for (int64_t step = 0; step < run.steps; ++step) {
    const Partition& groups = phases[ds_sync_phase(
        options, step, run.steps_per_epoch, std::ssize(phases))];
    if (options.place == Averaging::kBeforeForward)
      test::average_groups(groups, x);
    test::local_step(run, step, x, m);
    if (options.place == Averaging::kAfterUpdate)
      test::average_groups(groups, x);
  }
  return x;
}

TEST(DsSync, FollowsItsRecursion) {
  for (const int N : kWorkers)
    for (const ToyRun& run : all_runs())
      test::expect_near(test::train_toy(N, run).parameters, by_hand(N, run),
                        2e-5);
}

// One group of all workers is parameter averaging, which without momentum
// equals bulk-synchronous SGD.
TEST(DsSync, OfOneGroupAveragesAll) {
  ToyRun run = ds_sync_run();
  run.sync.ds_sync.place = Averaging::kAfterUpdate;
  for (const int N : {3, 4, 6}) {
    run.sync.ds_sync.radices = {static_cast<double>(N)};
    const auto result = test::train_toy(N, run);
    test::expect_equal_replicas(result);
    test::expect_near(result.parameters,
                      test::train_toy(N, ToyRun{}).parameters, 1e-6);
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
    test::expect_near(test::train_toy(N, run).parameters,
                      test::Matrix(N, alone), 1e-6);
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

// Each worker sends 2 (g - 1) / g of the model per step.
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

// Agreeing on the end does not delay them either.
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
    run.steps = 7;  // fewer than one agreement covers
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
    for (ToyRun run : all_runs()) {
      run.boundary_every = 3;
      test::expect_boundaries_change_nothing(N, run, {3, 6, 9});
    }
}

TEST(DsSync, AveragesAllAtTheEndIfAsked) {
  ToyRun run = ds_sync_run();
  const auto as_published = test::train_toy(4, run);
  EXPECT_NE(as_published.parameters[0], as_published.parameters[1]);
  run.sync.ds_sync.final_average = true;
  const auto averaged = test::train_toy(4, run);
  test::expect_equal_replicas(averaged);
  test::expect_near(averaged.parameters,
                    test::Matrix(4, test::mean_of(as_published.parameters)),
                    1e-6);
}

// The library's own collective in several groups at the same time.
TEST(DsSync, ByTheLibrarysOwnCollective) {
  ToyRun run = ds_sync_run();
  const auto by_ring = test::train_toy(6, run).parameters;
  run.sync.collective = CollectiveAlgorithm::kNative;
  test::expect_near(test::train_toy(6, run).parameters, by_ring, 1e-6);
}

// Averages take virtual time: those of a pair cost less than those of all.
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
