// Synchronous model averaging: the published recursion, in double.
#include <utility>

#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

ToyRun sma_run() {
  ToyRun run;
  run.sync.scheme = "sma";
  run.sync.sma.momentum = 0.8;
  run.num_buffers = 0;
  return run;
}

TEST(Sma, FollowsTheRecursion) {
  for (const int workers : {1, 2, 3, 8}) {
    ToyRun run = sma_run();
    constexpr size_t kElems = 48;
    std::vector<double> z;
    for (size_t i = 0; i < kElems; ++i)
      z.push_back(run.start(0, static_cast<int64_t>(i)));
    std::vector<double> last = z;
    std::vector<std::vector<double>> x(workers, z), centre(workers);
    run.at_boundary = [&](int rank, int64_t, Scheme& scheme, Replica&) {
      test::TestContext host;
      const DeviceVector<float> model(host.context.device(),
                                      host.context.stream(), kElems);
      scheme.evaluation_model(EvalModel::kCentre, model, {});
      OnHost on_host(model);
      centre[rank].assign(on_host.values().begin(), on_host.values().end());
    };
    const auto result = test::train_toy(workers, run);
    for (int64_t step = 0; step < run.steps; ++step) {
      std::vector<double> next = z;
      for (size_t i = 0; i < kElems; ++i) next[i] += 0.8 * (z[i] - last[i]);
      for (int rank = 0; rank < workers; ++rank) {
        std::vector<float> at(x[rank].begin(), x[rank].end()), g(kElems);
        test::quadratic_gradient(rank, step, at, g);
        for (size_t i = 0; i < kElems; ++i) {
          const double correction = (x[rank][i] - z[i]) / workers;
          x[rank][i] -= 0.1 * g[i] + correction;
          next[i] += correction;
        }
      }
      last = std::exchange(z, next);
    }
    for (int rank = 0; rank < workers; ++rank)
      for (size_t i = 0; i < kElems; ++i) {
        EXPECT_NEAR(result.parameters[rank][i], x[rank][i], 1e-5);
        EXPECT_NEAR(centre[rank][i], z[i], 1e-5);
      }
  }
}

TEST(Sma, GoesOnToTheBit) {
  ToyRun run = sma_run();
  run.optimizer.momentum = 0.9;
  run.boundary_every = 3;
  const auto straight = test::train_toy(3, run);
  run.restart_at = 3;
  EXPECT_EQ(test::train_toy(3, run).parameters, straight.parameters);
}

TEST(Sma, SendsTheModelEveryStep) {
  const ToyRun run = sma_run();
  for (const int64_t bytes : test::train_toy(4, run).payload_bytes)
    EXPECT_EQ(bytes, run.steps * 2 * 3 * 48 * 4 / 4);
}

}  // namespace
}  // namespace syncopate
