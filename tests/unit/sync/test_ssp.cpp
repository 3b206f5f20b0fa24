// Stale synchronous parallel: the updates that a worker sees, its lead over the
// others, and the absence of deadlocks.
#include <algorithm>

#include "sync/arrival_order.h"
#include "unit/sync/reference.h"
#include "unit/sync/server_toy.h"

namespace syncopate {
namespace {

using test::ToyRun;

class SspPull : public ::testing::TestWithParam<Pulling> {};

INSTANTIATE_TEST_SUITE_P(, SspPull, test::kBothPullings, test::name_of_pulling);

ToyRun ssp_run(int64_t bound, uint64_t seed) {
  ToyRun run = test::run_of("ssp");
  run.sync.ssp.bound = bound;
  run.step_time = test::uneven(seed);
  return run;
}

TEST_P(SspPull, WithBoundZeroIsBsp) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9})
    for (const int64_t every : {0, 3}) {
      ToyRun run = ssp_run(0, 4);
      run.sync.asp.pull = GetParam();
      run.boundary_every = every;
      run.optimizer.lr = 0.2;
      run.sync.scheme = "bsp";
      const auto bsp = test::train_toy(workers, run);
      run.sync.scheme = "ssp";
      run.optimizer.lr = 0.2 / workers;
      const auto ssp = test::train_toy(workers, run);
      EXPECT_EQ(ssp.steps, bsp.steps);
      test::expect_near(ssp.parameters, bsp.parameters, 1e-6);
    }
}

// Also with momentum: all workers have the same x regardless of their order.
TEST(Ssp, WithBoundZeroHidesTheCurrentClock) {
  for (const int workers : {2, 3, 4, 9}) {
    ToyRun run = ssp_run(0, 6);
    run.optimizer.momentum = 0.9;
    std::map<int64_t, std::vector<float>> seen;
    run.gradient = [&](int rank, int64_t step, std::span<const float> x,
                       std::span<float> g) {
      const std::vector<float> values(x.begin(), x.end());
      EXPECT_EQ(seen.try_emplace(step, values).first->second, values);
      test::quadratic_gradient(rank, step, x, g);
    };
    test::train_toy(workers, run);
    EXPECT_EQ(seen.size(), 10u);
  }
}

// At clock c a worker sees the first c - s updates of all, and all its own.
TEST_P(SspPull, SeesWhatTheBoundPromises) {
  for (const int workers : {2, 3, 4, 6, 8, 9})
    for (const int64_t bound : {0, 1, 3}) {
      ToyRun run = test::counting_run("ssp", workers);
      run.sync.asp.pull = GetParam();
      run.sync.ssp.bound = bound;
      run.steps = 20;
      for (int rank = 0; rank < workers; ++rank)
        run.step_s.push_back(rank == 0 ? 1 : 5 + rank);
      int64_t farthest = 0;
      run.gradient = [&](int rank, int64_t step, std::span<const float> x,
                         std::span<float> g) {
        for (int other = 0; other < workers; ++other)
          EXPECT_GE(x[other], static_cast<float>(step - bound));
        EXPECT_EQ(x[rank], static_cast<float>(step));
        const auto slowest = *std::min_element(x.begin(), x.begin() + workers);
        farthest = std::max(farthest, step - static_cast<int64_t>(slowest));
        g[rank] = -1;
      };
      test::expect_all_counted(test::train_toy(workers, run), 20 * workers);
      EXPECT_EQ(farthest, bound);
    }
}

TEST(Ssp, TheSlowestSetsThePace) {
  ToyRun run = ssp_run(2, 1);
  run.step_time = nullptr;
  run.step_s = {1, 10};
  run.steps = 10;
  const auto result = test::train_toy(2, run);
  // The fast worker may start step c at 10 (c - 2): 3 steps ahead at the end.
  EXPECT_EQ(result.steps, (std::vector<int64_t>{11, 9}));
  EXPECT_EQ(result.clock[1], 90);
  EXPECT_GE(result.clock[0], 80);
}

// However often a run is evaluated: a lead is not forgiven at a boundary.
TEST_P(SspPull, TheBoundHoldsOverBoundaries) {
  for (const int64_t bound : {0, 2, 4}) {
    ToyRun run = ssp_run(bound, 1);
    run.sync.asp.pull = GetParam();
    run.step_time = nullptr;
    run.step_s = {1, 10, 3};
    run.steps = 20;
    const auto whole = test::train_toy(3, run);
    for (const int64_t every : {1, 2, 5}) {
      run.boundary_every = every;
      const auto parted = test::train_toy(3, run);
      EXPECT_EQ(parted.steps, whole.steps) << bound << ", every " << every;
      EXPECT_EQ(parted.clock, whole.clock) << bound << ", every " << every;
    }
  }
}

// Where it is not always the same worker for which the others wait.
TEST_P(SspPull, TheBoundHoldsOverBoundariesWhoeverIsSlow) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    ToyRun run = ssp_run(1, seed);
    run.sync.asp.pull = GetParam();
    run.steps = 40;
    const auto whole = test::train_toy(8, run);
    run.boundary_every = 1;
    const auto parted = test::train_toy(8, run);
    EXPECT_EQ(parted.steps, whole.steps) << seed;
    EXPECT_EQ(parted.clock, whole.clock) << seed;
  }
}

TEST(Ssp, WithALargeBoundIsAsp) {
  for (const int workers : {1, 2, 4, 9}) {
    ToyRun run = ssp_run(1000, 8);
    run.optimizer.momentum = 0.9;
    run.boundary_every = 4;
    const auto ssp = test::train_toy(workers, run);
    run.sync.scheme = "asp";
    const auto asp = test::train_toy(workers, run);
    EXPECT_EQ(ssp.parameters, asp.parameters);
    EXPECT_EQ(ssp.clock, asp.clock);
  }
}

// A deadlock in one process would be reported.
TEST_P(SspPull, NeverLocksUp) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9})
    for (const int64_t bound : {0, 1, 2, 5})
      for (const int64_t servers : {0, 1, 2})
        for (const int64_t every : {0, 1, 2, 5})
          for (const uint64_t seed : {1, 2, 3}) {
            if (servers > workers) continue;
            ToyRun run = test::counting_run("ssp", workers);
            run.sync.asp.pull = GetParam();
            run.sync.ssp.bound = bound;
            run.sync.asp.servers = servers;
            run.boundary_every = every;
            run.steps = 7;
            run.step_time = test::uneven(seed);
            const NetworkCost cost{.latency_s = seed == 2 ? 0.7 : 0,
                                   .bytes_per_s = seed == 3 ? 50.0 : 0};
            test::expect_all_counted(test::train_toy(workers, run, cost),
                                     7 * workers);
          }
}

TEST_P(SspPull, GoesOnToTheBit) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9}) {
    ToyRun run = ssp_run(1, 5);
    run.sync.asp.pull = GetParam();
    run.optimizer.momentum = 0.9;
    run.boundary_every = 3;
    test::expect_resumes(workers, run, {6},
                         {.latency_s = 0.2, .bytes_per_s = 1000});
  }
}

TEST(Ssp, ReplaysARecordedOrder) {
  const test::OwnFolder folder;
  for (const int workers : {2, 3, 4})
    for (const int64_t bound : {0, 1, 3}) {
      ToyRun run = ssp_run(bound, 11);
      run.optimizer.momentum = 0.9;
      run.boundary_every = 4;
      run.sync.asp.record = true;
      const auto recorded = test::train_toy(workers, run);
      run.sync.asp.record = false;
      run.sync.asp.replay = folder / "order.h5";
      run.step_time = test::uneven(12);
      EXPECT_EQ(test::train_toy(workers, run).parameters, recorded.parameters);
    }
}

// An order in which leads were forgotten at boundaries could make a push wait
// for ever.
TEST(Ssp, AnOrderOfForgottenLeadsIsRefused) {
  const test::OwnFolder folder;
  const std::string path = folder / "old.h5";
  for (const int64_t bound : {int64_t{-1}, int64_t{3}}) {
    const OrderShape shape{
        .workers = 2, .shards = 1, .worker_steps = 2, .bound = bound};
    ArrivalOrder order{{0, 1}, {{0, 1}}, {2}};
    write_order(path, order, shape);
    if (bound < 0) {
      EXPECT_NO_THROW(read_order(path, shape));
      continue;
    }
    EXPECT_THROW(read_order(path, shape), Error);
    order.keeps_leads = 1;
    write_order(path, order, shape);
    EXPECT_NO_THROW(read_order(path, shape));
  }
}

// Time for which the bound blocks a worker is reported as waiting for others.
TEST(Ssp, TellsHowLongItWaited) {
  ToyRun run = ssp_run(0, 1);
  run.step_time = nullptr;
  run.step_s = {1, 3};
  double waited[2] = {0, 0};
  run.at_boundary = [&](int rank, int64_t, Scheme& scheme, Replica&) {
    const SyncTimes times = scheme.take_times();
    waited[rank] = times.wait_s;
    EXPECT_EQ(times.exposed_s, times.wait_s);
  };
  test::train_toy(2, run);
  EXPECT_EQ(waited[0], 20);
  EXPECT_EQ(waited[1], 0);
}

TEST(Ssp, SaysWhatCannotRun) {
  EXPECT_EQ(test::obstacle_of(ssp_run(-1, 1), 2),
            "ssp.bound: -1, expected 0 or more");
  EXPECT_EQ(test::obstacle_of(ssp_run(0, 1), 2), "");
}

}  // namespace
}  // namespace syncopate
