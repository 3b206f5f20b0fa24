// Elastic averaging: the published recursion, and what it keeps.
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

ToyRun easgd_run() {
  ToyRun run;
  run.sync.scheme = "easgd";
  run.sync.easgd = {.steps = 2, .beta = 0.6};
  run.num_buffers = 0;
  return run;
}

TEST(Easgd, FollowsTheRecursion) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9}) {
    const ToyRun run = easgd_run();
    const auto result = test::train_toy(workers, run);
    constexpr size_t kElems = 48;
    std::vector<double> centre;
    for (size_t i = 0; i < kElems; ++i)
      centre.push_back(run.start(0, static_cast<int64_t>(i)));
    std::vector<std::vector<double>> x(workers, centre);
    for (int64_t step = 0; step < run.steps; ++step) {
      for (int rank = 0; rank < workers; ++rank) {
        std::vector<float> at(x[rank].begin(), x[rank].end()), g(kElems);
        test::quadratic_gradient(rank, step, at, g);
        for (size_t i = 0; i < kElems; ++i) x[rank][i] -= 0.1 * g[i];
      }
      if (step % 2 == 0) continue;
      for (size_t i = 0; i < kElems; ++i) {
        double pulls = 0;
        for (int rank = 0; rank < workers; ++rank) {
          const double pull = 0.6 / workers * (x[rank][i] - centre[i]);
          x[rank][i] -= pull;
          pulls += pull;
        }
        centre[i] += pulls;
      }
    }
    for (int rank = 0; rank < workers; ++rank)
      for (size_t i = 0; i < kElems; ++i)
        EXPECT_NEAR(result.parameters[rank][i], x[rank][i], 1e-5);
  }
}

TEST(Easgd, GoesOnToTheBit) {
  ToyRun run = easgd_run();
  run.optimizer.momentum = 0.9;
  run.boundary_every = 3;
  const auto straight = test::train_toy(3, run);
  run.restart_at = 3;
  EXPECT_EQ(test::train_toy(3, run).parameters, straight.parameters);
}

TEST(Easgd, SendsTheModelEverySecondStep) {
  const auto result = test::train_toy(4, easgd_run());
  for (const int64_t bytes : result.payload_bytes)
    EXPECT_EQ(bytes, 5 * 2 * 3 * 48 * 4 / 4);
}

}  // namespace
}  // namespace syncopate
