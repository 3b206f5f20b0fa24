// ESync and Sync-Switch under MPI give the same result as in one process if
// step times do not matter, and a complete one if they do.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "support/mpi_main.h"
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

class MpiSwitch : public ::testing::Test {
 protected:
  // Gives steps a real duration: (1 + rank) ms, or as given.
  static void take_time(ToyRun& run, std::vector<int> milliseconds = {}) {
    run.gradient = [milliseconds](int rank, int64_t step,
                                  std::span<const float> x,
                                  std::span<float> gradient) {
      test::quadratic_gradient(rank, step, x, gradient);
      usleep(1000 * (milliseconds.empty() ? 1 + rank : milliseconds[rank]));
    };
  }

  // All steps were taken, and all workers hold the same finite model. If the
  // last phase runs without some workers, some of the others may take one step
  // more.
  void expect_whole(const test::ToyResult& result,
                    const ToyRun& run,
                    int64_t too_many = 0) {
    test::expect_equal_replicas(result);
    EXPECT_TRUE(std::isfinite(result.parameters[0][0]));
    const int64_t steps = test::sum_of(result.steps);
    EXPECT_GE(steps, run.steps * world_->size());
    EXPECT_LE(steps, run.steps * world_->size() + too_many);
  }

  std::unique_ptr<World> world_ = mpi_session().make_world();
};

TEST_F(MpiSwitch, EsyncEndsEverySegment) {
  for (const Query query : {Query::kBlocking, Query::kNonBlocking}) {
    for (const int64_t every : {1, 3, 20}) {
      ToyRun run = test::run_of("esync");
      run.sync.esync.query = query;
      run.optimizer.momentum = 0.5;
      run.steps = 20;
      run.boundary_every = every;
      take_time(run);
      expect_whole(test::train_toy(*world_, run), run);
    }
  }
}

// Sleeps of 5 and 60 ms give 12 local steps to 1. The machine is shared, so
// only check that there are clearly more: they are even if every step waits
// another 50 ms for a processor.
TEST_F(MpiSwitch, EsyncLocalStepsFollowTheSpeeds) {
  ToyRun run = test::run_of("esync");
  run.steps = 40;
  std::vector<int> milliseconds(world_->size(), 5);
  milliseconds.back() = 60;
  take_time(run, milliseconds);
  const auto result = test::train_toy(*world_, run);
  expect_whole(result, run);
  if (world_->size() > 1) {
    EXPECT_GT(result.steps[0], 2 * result.steps.back());
  }
}

TEST_F(MpiSwitch, EsyncGoesOnAfterARestart) {
  ToyRun run = test::run_of("esync");
  run.steps = 12;
  run.boundary_every = 4;
  run.restart_at = 8;
  take_time(run);
  expect_whole(test::train_toy(*world_, run), run);
}

TEST_F(MpiSwitch, SwitchesBackAndForth) {
  for (const std::string order : {"10", "01", "101", "0110"}) {
    for (const int64_t restart_at : {0, 6}) {
      ToyRun run = test::run_of("sync_switch");
      run.sync.sync_switch.order = {order};
      run.sync.sync_switch.fractions.assign(order.size(), 1.0 / order.size());
      run.sync.sync_switch.lr_rule = LrRule::kNone;
      run.optimizer.momentum = 0.5;
      run.optimizer.lr = 0.02;
      run.steps = 12;
      run.boundary_every = 3;
      run.restart_at = restart_at;
      take_time(run);
      expect_whole(test::train_toy(*world_, run), run);
    }
  }
}

// The detector gets the harness's step times instead of measured ones, so all
// decisions and bits are those of one process.
TEST_F(MpiSwitch, ElasticIsAsInOneProcess) {
  ToyRun run = test::run_of("sync_switch");
  run.sync.sync_switch.order = {"11"};
  run.sync.sync_switch.fractions = {0.5, 0.5};
  run.sync.sync_switch.policy = SwitchPolicy::kElastic;
  run.sync.sync_switch.window = 2;
  run.sync.sync_switch.consecutive = 2;
  run.optimizer.momentum = 0.9;
  run.optimizer.lr = 0.01;
  run.steps = 30;
  run.boundary_every = 7;
  run.num_buffers = 0;
  // Removes rank 0, so that another rank represents the model.
  run.step_time = [](int rank, int64_t) { return rank == 0 ? 4.0 : 1.0; };
  const auto by_ranks = test::train_toy(*world_, run);
  expect_whole(by_ranks, run, std::max(0, world_->size() - 2));
  if (world_->size() >= 3) {
    EXPECT_LT(by_ranks.steps[0], by_ranks.steps[1]);
  }
  if (mpi_session().rank() != 0) return;
  const auto by_workers = test::train_toy(world_->size(), run);
  EXPECT_EQ(by_ranks.parameters, by_workers.parameters);
  EXPECT_EQ(by_ranks.steps, by_workers.steps);
  EXPECT_EQ(by_ranks.payload_bytes, by_workers.payload_bytes);
}

TEST_F(MpiSwitch, GreedyTakesAllSteps) {
  ToyRun run = test::run_of("sync_switch");
  run.sync.sync_switch.order = {"10"};
  run.sync.sync_switch.fractions = {0.5, 0.5};
  run.sync.sync_switch.policy = SwitchPolicy::kGreedy;
  run.sync.sync_switch.window = 1;
  run.sync.sync_switch.consecutive = 2;
  run.optimizer.lr = 0.01;
  run.steps = 60;
  run.boundary_every = 25;
  const int last = world_->size() - 1;
  run.step_time = [last](int rank, int64_t step) {
    return rank == last && step >= 4 && step < 12 ? 3.0 : 1.0;
  };
  take_time(run, std::vector<int>(world_->size(), 1));
  std::vector<double> phases_at_work;
  run.after_step = [&](int, const StepPlan&, Scheme& scheme, Replica&) {
    const std::vector<double> row = scheme.take_series();
    if (row[0] == 0) phases_at_work.push_back(row[1]);
  };
  expect_whole(test::train_toy(*world_, run), run);
  // During phase 0 asp runs for a while, and bsp again at its end.
  const bool has_switched =
      std::count(phases_at_work.begin(), phases_at_work.end(), 1.0) > 0;
  EXPECT_EQ(has_switched, world_->size() >= 3);
  EXPECT_EQ(phases_at_work.back(), 0);
}

}  // namespace
}  // namespace syncopate
