// Parameter-server schemes under MPI: late workers lose no update, and a run in
// one process reproduces the bits from the recorded order of arrival.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>

#include "support/mpi_main.h"
#include "unit/sync/server_toy.h"

namespace syncopate {
namespace {

using test::ToyResult;
using test::ToyRun;

class Server : public ::testing::Test {
 protected:
  int ranks() const { return world_->size(); }
  std::unique_ptr<World> world_ = mpi_session().make_world();
};

// A random time of up to 2 ms, sometimes 20 ms.
void sleep_a_while() {
  static std::mt19937 random(std::random_device{}());
  const auto us = random() % 2000;
  usleep(static_cast<useconds_t>(random() % 16 == 0 ? 10 * us : us));
}

// Delays each call of `gradient`.
ToyRun with_late_workers(ToyRun run) {
  run.gradient = [gradient = run.gradient](int rank, int64_t step,
                                           std::span<const float> x,
                                           std::span<float> g) {
    sleep_a_while();
    if (gradient)
      gradient(rank, step, x, g);
    else
      test::quadratic_gradient(rank, step, x, g);
  };
  return run;
}

TEST_F(Server, LosesNothing) {
  for (const char* scheme : {"asp", "ssp"})
    for (const Pulling pull : {Pulling::kAfterPush, Pulling::kBeforeStep})
      for (const int64_t servers : {0, 1})
        for (const int64_t every : {0, 1, 4}) {
          ToyRun run = test::counting_run(scheme, ranks());
          run.sync.asp.pull = pull;
          run.sync.asp.servers = servers;
          run.sync.ssp.bound = every;
          run.boundary_every = every;
          run.restart_at = every == 0 ? 0 : 4;
          run.gradient = [](int rank, int64_t step, std::span<const float> x,
                            std::span<float> g) {
            EXPECT_EQ(x[rank], static_cast<float>(step));
            g[rank] = -1;
          };
          const ToyResult result =
              test::train_toy(*world_, with_late_workers(run));
          test::expect_all_counted(result, run.steps * ranks());
        }
}

TEST_F(Server, SendsWhatTheFormulaSays) {
  for (const Wire wire : {Wire::kF32, Wire::kBf16})
    for (const ServerStatistics batchnorm :
         {ServerStatistics::kLocal, ServerStatistics::kShared,
          ServerStatistics::kAveraged}) {
      ToyRun run = test::run_of("asp");
      run.sync.wire = wire;
      run.sync.asp.batchnorm = batchnorm;
      run.num_buffers = 24;
      run.boundary_every = 5;
      const ToyResult result = test::train_toy(*world_, with_late_workers(run));
      const int64_t elems = 48, bytes = run.sync.wire == Wire::kBf16 ? 2 : 4;
      const int64_t all =
          elems * bytes + (run.sync.asp.batchnorm == ServerStatistics::kLocal
                               ? 0
                               : run.num_buffers * 4);
      const int64_t own = all / ranks();
      for (int rank = 0; rank < ranks(); ++rank) {
        const int64_t steps = result.steps[rank];
        EXPECT_EQ(result.payload_bytes[rank],
                  steps * (all - own) + (10 * ranks() - steps) * own);
      }
    }
}

// Converges to the mean of the targets, up to one worker's last update.
TEST_F(Server, Converges) {
  for (const char* scheme : {"asp", "ssp"}) {
    ToyRun run = test::run_of(scheme);
    run.sync.ssp.bound = 2;
    run.optimizer.lr = 0.02;
    run.steps = 300;
    run.boundary_every = 100;
    const ToyResult result = test::train_toy(*world_, run);
    test::expect_equal_replicas(result);
    // Targets are (rank + 1) (0.1 + 0.01 (i % 7)) + at most 0.002.
    for (size_t i = 0; i < result.parameters[0].size(); ++i) {
      const double unit = 0.1 + 0.01 * static_cast<double>(i % 7);
      EXPECT_GT(result.parameters[0][i], 0.95 * unit);
      EXPECT_LT(result.parameters[0][i], 1.05 * ranks() * unit);
    }
  }
}

TEST_F(Server, HoldsTheBound) {
  for (const int64_t bound : {0, 2}) {
    ToyRun run = test::counting_run("ssp", ranks());
    run.sync.ssp.bound = bound;
    run.gradient = [&, bound](int rank, int64_t step, std::span<const float> x,
                              std::span<float> g) {
      for (int other = 0; other < ranks(); ++other)
        EXPECT_GE(x[other], static_cast<float>(step - bound));
      g[rank] = -1;
    };
    const ToyResult result = test::train_toy(*world_, with_late_workers(run));
    test::expect_all_counted(result, run.steps * ranks());
  }
}

TEST_F(Server, WithBoundZeroIsBsp) {
  ToyRun run;
  run.optimizer.lr = 0.2;
  const ToyResult bsp = test::train_toy(*world_, run);
  run.optimizer.lr = 0.2 / ranks();
  run.sync.scheme = "ssp";
  run.sync.ssp.bound = 0;
  const ToyResult ssp = test::train_toy(*world_, with_late_workers(run));
  for (size_t i = 0; i < bsp.parameters[0].size(); ++i)
    EXPECT_NEAR(ssp.parameters[0][i], bsp.parameters[0][i], 1e-6);
}

// The name of a folder that rank 0 creates and all ranks use.
std::string shared_name(World& world) {
  double id = static_cast<double>(getpid());
  world.run([&](Endpoint& endpoint) {
    agree(endpoint, endpoint.world_group(), std::span(&id, 1), Combine::kMin,
          tags::kControl);
  });
  return "server_order." + std::to_string(static_cast<int64_t>(id));
}

void meet(World& world) {
  world.run([](Endpoint& endpoint) {
    barrier(endpoint, endpoint.world_group(), tags::kControl);
  });
}

TEST_F(Server, OneProcessReplaysWhatRanksRecorded) {
  const std::string name = shared_name(*world_);
  const auto here = std::filesystem::current_path();
  const auto folder = std::filesystem::temp_directory_path() / name;
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  for (const char* scheme : {"asp", "ssp"})
    for (const Wire wire : {Wire::kF32, Wire::kBf16})
      for (const Compensation compensation :
           {Compensation::kNone, Compensation::kPerWorker,
            Compensation::kPerKey}) {
        ToyRun run = test::run_of(scheme);
        run.sync.ssp.bound = 1;
        run.sync.wire = wire;
        run.sync.asp.compensation = compensation;
        run.sync.asp.batchnorm = ServerStatistics::kShared;
        run.statistics = [](int rank, int64_t step, std::span<float> s) {
          for (float& value : s)
            value = 0.9f * value + std::sin(static_cast<float>(rank + step));
        };
        run.optimizer.momentum = 0.9;
        run.boundary_every = 4;
        run.restart_at = 4;
        run.sync.asp.record = true;
        const ToyResult recorded =
            test::train_toy(*world_, with_late_workers(run));
        run.sync.asp.record = false;
        run.sync.asp.replay = (folder / "order.h5").string();
        if (mpi_session().rank() == 0) {
          const ToyResult replayed = test::train_toy(ranks(), run);
          EXPECT_EQ(replayed.parameters, recorded.parameters);
          EXPECT_EQ(replayed.buffers, recorded.buffers);
          EXPECT_EQ(replayed.steps, recorded.steps);
        }
        meet(*world_);
        const ToyResult again =
            test::train_toy(*world_, with_late_workers(run));
        EXPECT_EQ(again.parameters, recorded.parameters);
        EXPECT_EQ(again.steps, recorded.steps);
        meet(*world_);
      }
  std::filesystem::current_path(here);
  meet(*world_);
  if (mpi_session().rank() == 0) std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace syncopate
