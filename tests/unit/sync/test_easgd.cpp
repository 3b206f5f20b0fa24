// Elastic averaging: the published recursion and its invariants.
#include "unit/sync/reference.h"

namespace syncopate {
namespace {

using test::ToyRun;

ToyRun easgd_run() {
  ToyRun run = test::run_of("easgd");
  run.sync.easgd = {.steps = 2, .beta = 0.6};
  run.num_buffers = 0;
  return run;
}

// c <- c + beta (mean of x - c); each x moves towards the previous c.
void draw(test::Matrix& x, test::Vector& centre) {
  const test::Vector mean = test::mean_of(x);
  const auto workers = static_cast<double>(x.size());
  for (size_t i = 0; i < centre.size(); ++i) {
    for (test::Vector& row : x) row[i] -= 0.6 / workers * (row[i] - centre[i]);
    centre[i] += 0.6 * (mean[i] - centre[i]);
  }
}

TEST(Easgd, FollowsTheRecursion) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9}) {
    const ToyRun run = easgd_run();
    test::Matrix x = test::start_of(run, workers), m = test::zeros_like(x);
    test::Vector centre = x[0];
    for (int64_t step = 0; step < run.steps; ++step) {
      test::local_step(run, step, x, m);
      if (step % 2 == 1) draw(x, centre);
    }
    test::expect_near(test::train_toy(workers, run).parameters, x, 1e-5);
  }
}

// The paper's quantity, with x before it moves.
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
    test::Matrix x = test::start_of(run, workers), m = test::zeros_like(x);
    test::Vector expected = x[0];
    for (int64_t step = 0; step < 2; ++step) test::local_step(run, step, x, m);
    draw(x, expected);
    test::expect_near({centre[0]}, {expected}, 1e-6);
  }
}

TEST(Easgd, GoesOnToTheBit) {
  ToyRun run = easgd_run();
  run.optimizer.momentum = 0.9;
  run.boundary_every = 3;
  test::expect_boundaries_change_nothing(3, run, {3});
}

TEST(Easgd, SendsTheModelEverySecondStep) {
  const auto result = test::train_toy(4, easgd_run());
  for (const int64_t bytes : result.payload_bytes)
    EXPECT_EQ(bytes, 5 * 2 * 3 * 48 * 4 / 4);
}

}  // namespace
}  // namespace syncopate
