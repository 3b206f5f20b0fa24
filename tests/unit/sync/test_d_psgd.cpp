// D-PSGD is X <- W (X - eta G): against the matrix, and what follows from it.
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::Matrix;
using test::ToyRun;

TEST(DPsgd, FollowsTheMatrix) {
  for (const auto& [topology, workers] : test::all_topologies()) {
    SCOPED_TRACE(topology.kind + " of " + std::to_string(workers));
    ToyRun run = test::gossip_run("d_psgd");
    run.sync.topology = topology;
    run.start = test::unlike_start;
    const Matrix w = test::mixing_matrix(topology, workers);
    Matrix x = test::start_of(run, workers);
    for (int64_t step = 0; step < run.steps; ++step)
      x = test::multiply(
          w, test::sum(x, -run.optimizer.lr, test::gradients_at(run, step, x)));
    test::expect_near(test::train_toy(workers, run).parameters, x, 1e-5);
  }
}

TEST(DPsgd, OnTheCompleteGraphAveragesParameters) {
  ToyRun run = test::gossip_run("d_psgd");
  run.sync.topology.kind = "complete";
  for (const int workers : {2, 3, 4, 8}) {
    Matrix x = test::start_of(run, workers);
    for (int64_t step = 0; step < run.steps; ++step) {
      x = test::sum(x, -run.optimizer.lr, test::gradients_at(run, step, x));
      x.assign(workers, test::mean_of(x));
    }
    test::expect_near(test::train_toy(workers, run).parameters, x, 1e-5);
  }
}

// Also of what is rounded on its way: to fp32's precision, not bf16's.
TEST(DPsgd, KeepsTheMean) {
  for (const auto& [topology, workers] : test::all_topologies()) {
    for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
      SCOPED_TRACE(topology.kind + " of " + std::to_string(workers));
      ToyRun run = test::gossip_run("d_psgd");
      run.sync.topology = topology;
      run.sync.wire = wire;
      run.start = test::unlike_start;
      run.optimizer.lr = 0;
      const Matrix x = test::start_of(run, workers);
      const auto result = test::train_toy(workers, run);
      test::expect_near({test::mean_of(result.parameters)}, {test::mean_of(x)},
                        1e-6);
      if (workers == 1) continue;
      EXPECT_LT(test::consensus_error(result.parameters),
                test::consensus_error(x));
    }
  }
}

TEST(DPsgd, KeepsTheMeanAfterALongRun) {
  ToyRun run = test::gossip_run("d_psgd");
  run.sync.topology.kind = "complete";
  run.num_buffers = 0;
  EXPECT_LT(test::mean_drift(run, 7, 3000), 3e-6);
}

// Steps of 1e-4 at values near 1, where bf16 resolves 1/256.
TEST(DPsgd, LosesNoSmallStepToBf16) {
  ToyRun run = test::gossip_run("d_psgd");
  run.sync.wire = Wire::kBf16;
  run.steps = 50;
  run.optimizer.lr = 1e-4;
  run.start = [](int, int64_t) { return 1.0f; };
  run.gradient = [](int, int64_t, std::span<const float>, std::span<float> g) {
    std::fill(g.begin(), g.end(), 1.0f);
  };
  for (const auto& x : test::train_toy(4, run).parameters)
    for (const double value : x) EXPECT_NEAR(value, 1 - 50e-4, 1e-5);
}

TEST(DPsgd, GoesOnToTheBit) {
  ToyRun run = test::gossip_run("d_psgd");
  run.start = test::unlike_start;
  run.step_s = {1, 1.5, 1, 2};
  test::expect_resumes(4, run, {.latency_s = 0.25, .bytes_per_s = 400});
  run.sync.wire = Wire::kBf16;
  test::expect_resumes(4, run, {.latency_s = 0.25, .bytes_per_s = 400});
}

TEST(DPsgd, SendsItsParametersToEachNeighbour) {
  ToyRun run = test::gossip_run("d_psgd");
  test::expect_bytes(run, 4 * test::elems_of(run));
  run.sync.wire = Wire::kBf16;
  test::expect_bytes(run, 2 * test::elems_of(run));
}

// One slow step of worker 0 reaches a worker `distance` steps later.
TEST(DPsgd, ASlowWorkerDelaysOnlyAsTheGraphSays) {
  ToyRun run = test::gossip_run("d_psgd");
  run.step_time = test::one_slow_step();
  run.steps = 3;
  const auto result = test::train_toy(9, run);
  EXPECT_EQ(result.clock,
            (std::vector<double>{10, 10, 10, 10, 3, 3, 10, 10, 10}));
}

TEST(DPsgd, RefusesTopologiesThatAreNone) {
  const test::ToyModel model({4}, 0);
  SyncOptions sync;
  sync.scheme = "d_psgd";
  sync.topology.kind = "torus";
  OptimizerOptions optimizer;
  const auto obstacle = [&](int workers) {
    return scheme_obstacle({.sync = sync,
                            .optimizer = optimizer,
                            .parameters = model.parameters(),
                            .workers = workers,
                            .total_steps = 1});
  };
  EXPECT_NE(obstacle(8).find("torus"), std::string::npos) << obstacle(8);
  EXPECT_EQ(obstacle(9), "");
}

}  // namespace
}  // namespace syncopate
