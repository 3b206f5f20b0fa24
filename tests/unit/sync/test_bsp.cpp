// Bulk-synchronous training is one worker's training with the mean gradient.
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

// x of one worker that follows the mean of the N workers' gradients.
std::vector<double> trained_alone(int workers, const ToyRun& run) {
  int64_t elems = 0;
  for (const int64_t tensor : run.tensors) elems += tensor;
  std::vector<float> x(elems), gradient(elems);
  for (int64_t i = 0; i < elems; ++i) x[i] = run.start(0, i);
  std::vector<double> exact(x.begin(), x.end());
  for (int64_t step = 0; step < run.steps; ++step) {
    std::vector<double> mean(elems, 0.0);
    for (int rank = 0; rank < workers; ++rank) {
      test::quadratic_gradient(rank, step, x, gradient);
      for (int64_t i = 0; i < elems; ++i) mean[i] += gradient[i];
    }
    for (int64_t i = 0; i < elems; ++i) {
      exact[i] -= run.optimizer.lr * mean[i] / workers;
      x[i] = static_cast<float>(exact[i]);
    }
  }
  return exact;
}

TEST(Bsp, FollowsTheMeanGradient) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9}) {
    ToyRun run;
    const auto result = test::train_toy(workers, run);
    const std::vector<double> expected = trained_alone(workers, run);
    for (int rank = 0; rank < workers; ++rank) {
      EXPECT_EQ(result.parameters[rank], result.parameters[0]);
      EXPECT_EQ(result.steps[rank], run.steps);
    }
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(result.parameters[0][i], expected[i], 1e-5);
  }
}

TEST(Bsp, GoesOnToTheBit) {
  ToyRun run;
  run.optimizer.momentum = 0.9;
  run.boundary_every = 3;
  const auto straight = test::train_toy(3, run);
  run.restart_at = 6;
  EXPECT_EQ(test::train_toy(3, run).parameters, straight.parameters);
}

// The slowest worker sets the pace.
TEST(Bsp, WaitsForTheSlowest) {
  ToyRun run;
  run.step_s = {1, 4};
  const auto result = test::train_toy(2, run);
  EXPECT_EQ(result.clock, (std::vector<double>{40, 40}));
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

}  // namespace
}  // namespace syncopate
