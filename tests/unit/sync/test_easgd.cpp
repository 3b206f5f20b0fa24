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

// What the paper reports: c <- c + beta (mean of x - c), x before it is drawn.
TEST(Easgd, OffersItsCentre) {
  for (const int workers : {1, 4}) {
    ToyRun run = easgd_run();
    run.steps = 2;
    run.num_buffers = 1;
    std::vector<std::vector<double>> centre(workers);
    std::vector<double> statistic(workers);
    run.at_boundary = [&](int rank, int64_t, Scheme& scheme, Replica& replica) {
      test::TestContext host;
      const auto range = [&](int64_t elems) {
        return DeviceVector<float>(host.context.device(), host.context.stream(),
                                   elems);
      };
      const DeviceVector<float> x = range(48), buffers = range(1);
      scheme.evaluation_model(EvalModel::kCentre, x, buffers);
      OnHost on_host(x), of_buffers(buffers);
      centre[rank].assign(on_host.values().begin(), on_host.values().end());
      statistic[rank] = of_buffers.values()[0];
      EXPECT_EQ(replica.parameters.size(), 48);
    };
    test::train_toy(workers, run);
    double mean_statistic = 0;
    for (int rank = 0; rank < workers; ++rank)
      mean_statistic += (rank + 0.5) / workers;
    for (int rank = 0; rank < workers; ++rank) {
      EXPECT_EQ(centre[rank], centre[0]);
      EXPECT_NEAR(statistic[rank], mean_statistic, 1e-6);
    }
    for (size_t i = 0; i < 48; ++i) {
      const double start = run.start(0, static_cast<int64_t>(i));
      double mean = 0;
      for (int rank = 0; rank < workers; ++rank) {
        double x = start;
        for (int64_t step = 0; step < 2; ++step) {
          const auto at = static_cast<float>(x);
          std::vector<float> all(48, at), gradient(48);
          test::quadratic_gradient(rank, step, all, gradient);
          x -= 0.1 * gradient[i];
        }
        mean += x / workers;
      }
      EXPECT_NEAR(centre[0][i], start + 0.6 * (mean - start), 1e-6);
    }
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
