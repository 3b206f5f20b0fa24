// Bulk-synchronous training equals one worker's training with the mean
// gradient.
#include "unit/sync/reference.h"

namespace syncopate {
namespace {

using test::ToyRun;

TEST(Bsp, FollowsTheMeanGradient) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9}) {
    const ToyRun run;
    const auto result = test::train_toy(workers, run);
    EXPECT_EQ(result.steps, std::vector<int64_t>(workers, run.steps));
    test::expect_equal_replicas(result);
    test::Matrix x = test::start_of(run, workers);
    for (int64_t step = 0; step < run.steps; ++step) {
      x = test::sum(x, -run.optimizer.lr, test::gradients_at(run, step, x));
      x.assign(workers, test::mean_of(x));
    }
    test::expect_near(result.parameters, x, 1e-5);
  }
}

TEST(Bsp, GoesOnToTheBit) {
  ToyRun run;
  run.optimizer.momentum = 0.9;
  run.boundary_every = 3;
  test::expect_boundaries_change_nothing(3, run, {6});
}

// The slowest worker determines the pace, also with compressed gradients.
TEST(Bsp, WaitsForTheSlowest) {
  for (const char* scheme : {"bsp", "dgc", "power_sgd"}) {
    ToyRun run = test::run_of(scheme);
    run.sync.compress.kind = "top_k";
    run.step_s = {1, 4};
    EXPECT_EQ(test::train_toy(2, run).clock, std::vector<double>(2, 40))
        << scheme;
  }
}

TEST(Bsp, ClipsLocallyBeforeTheReduction) {
  ToyRun run;
  run.steps = 1;
  run.optimizer.lr = 1;
  run.optimizer.clip_norm = 1;
  run.start = [](int, int64_t) { return 0.0f; };
  // Worker 0 pulls by 10 along +e0, worker 1 by 1 along -e0.
  run.gradient = [](int rank, int64_t, std::span<const float>,
                    std::span<float> g) { g[0] = rank == 0 ? 10.0f : -1.0f; };
  EXPECT_NEAR(test::train_toy(2, run).parameters[0][0], -1.0, 1e-4);
  run.sync.bsp.clip = ClipPlace::kLocal;
  EXPECT_NEAR(test::train_toy(2, run).parameters[0][0], 0.0, 1e-4);
}

// What is bounded is the gradient of a worker's own samples, of which one may
// have three times as many: 1 and -1 after clipping, in the ratio 3 to 1.
TEST(Bsp, ClipsLocallyRegardlessOfTheNumberOfSamples) {
  for (const char* scheme : {"bsp", "sync_switch"}) {
    ToyRun run = test::run_of(scheme);
    run.steps = 1;
    run.optimizer.lr = 1;
    run.optimizer.clip_norm = 1;
    run.sync.bsp.clip = ClipPlace::kLocal;
    run.sync.sync_switch.order = {"1"};
    run.sync.sync_switch.fractions = {};
    run.sync.sync_switch.lr_rule = LrRule::kNone;
    run.batch_weight = {1.5, 0.5};
    run.start = [](int, int64_t) { return 0.0f; };
    run.gradient = [&](int rank, int64_t, std::span<const float>,
                       std::span<float> g) {
      g[0] = rank == 0 ? 10.0f : -4.0f;
      if (run.sync.scheme == "bsp") g[0] *= run.batch_weight[rank];
    };
    EXPECT_NEAR(test::train_toy(2, run).parameters[0][0],
                -(1.5 * 1 + 0.5 * -1) / 2, 1e-4)
        << scheme;
  }
}

}  // namespace
}  // namespace syncopate
