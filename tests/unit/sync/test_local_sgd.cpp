// Local SGD against its recursion in double, and its identities.
#include <utility>

#include "unit/sync/reference.h"

namespace syncopate {
namespace {

using test::expect_near;
using test::Matrix;
using test::ToyRun;

ToyRun local_run(int64_t steps) {
  ToyRun run = test::run_of("local_sgd");
  run.sync.local_sgd.steps = steps;
  return run;
}

// The formulas of the header.
Matrix by_hand(int N, const ToyRun& run) {
  const LocalSgdOptions& options = run.sync.local_sgd;
  const double mu = options.outer_momentum, eta = options.outer_lr;
  Matrix x = test::start_of(run, N), m = test::zeros_like(x);
  test::Vector start = x[0], v = m[0];
  for (int64_t step = 0; step < run.steps; ++step) {
    test::local_step(run, step, x, m);
    if ((step + 1) % options.steps != 0) continue;
    test::Vector next = test::mean_of(x);
    for (size_t i = 0; i < next.size(); ++i) {
      const double d = start[i] - next[i];
      v[i] = mu * v[i] + d;
      if (options.outer == OuterStep::kMomentum)
        next[i] =
            start[i] - eta * (options.outer_nesterov ? d + mu * v[i] : v[i]);
    }
    x.assign(N, next);
    start = next;
  }
  return x;
}

TEST(LocalSgd, FollowsItsRecursion) {
  for (const int N : {1, 2, 3, 4, 6, 8, 9})
    for (const int64_t H : {1, 3, 4}) {
      ToyRun run = local_run(H);
      run.optimizer.momentum = 0.9;
      expect_near(test::train_toy(N, run).parameters, by_hand(N, run), 2e-5);
    }
}

TEST(LocalSgd, HasAnOuterOptimizer) {
  for (const int N : {1, 3, 4})
    for (const bool nesterov : {false, true}) {
      ToyRun run = local_run(3);
      run.sync.local_sgd.outer = OuterStep::kMomentum;
      run.sync.local_sgd.outer_lr = 0.7;
      run.sync.local_sgd.outer_momentum = 0.8;
      run.sync.local_sgd.outer_nesterov = nesterov;
      expect_near(test::train_toy(N, run).parameters, by_hand(N, run), 2e-5);
    }
}

// x_start - (x_start - mean of x)
TEST(LocalSgd, OuterRateOneWithoutMomentumIsTheMean) {
  ToyRun run = local_run(3);
  const auto mean = test::train_toy(4, run).parameters;
  run.sync.local_sgd.outer = OuterStep::kMomentum;
  run.sync.local_sgd.outer_momentum = 0;
  expect_near(test::train_toy(4, run).parameters, mean, 1e-6);
}

TEST(LocalSgd, OfOneStepIsBulkSynchronous) {
  const auto result = test::train_toy(4, local_run(1));
  const auto bsp = test::train_toy(4, ToyRun{});
  expect_near(result.parameters, bsp.parameters, 1e-6);
}

// Post-local SGD with rounds of one step: for linear optimizers, including
// momentum, the means of models and of gradients give the same result.
TEST(LocalSgd, PostLocalOfOneStepIsBulkSynchronous) {
  for (const int N : {1, 3, 4})
    for (const bool nesterov : {false, true}) {
      ToyRun run = local_run(1);
      run.optimizer.momentum = 0.9;
      run.optimizer.nesterov = nesterov;
      run.optimizer.weight_decay = 0.01;
      run.sync.local_sgd.start = {4, false};
      const auto post_local = test::train_toy(N, run);
      run.sync.scheme = "bsp";
      expect_near(post_local.parameters, test::train_toy(N, run).parameters,
                  2e-6);
    }
}

TEST(LocalSgd, StartsBulkSynchronously) {
  for (const bool in_epochs : {false, true}) {
    ToyRun run = local_run(3);
    run.optimizer.momentum = 0.9;
    run.optimizer.clip_norm = 0.5;
    run.sync.local_sgd.start = {in_epochs ? 1.0 : 5.0, in_epochs};
    ToyRun bsp = run;
    bsp.sync.scheme = "bsp";
    bsp.steps = run.steps = 5;
    const auto together = test::train_toy(3, run);
    EXPECT_EQ(together.parameters, test::train_toy(3, bsp).parameters);
    EXPECT_EQ(together.buffers[2][0], 1 + 0.5 * 4);  // statistics averaged
    run.steps = 6;  // the sixth is the first local one
    const auto apart = test::train_toy(3, run).parameters;
    EXPECT_NE(apart[0], apart[1]);
    run.steps = 8;  // and the eighth the last of the round
    EXPECT_EQ(test::train_toy(3, run).parameters[1],
              test::train_toy(3, run).parameters[0]);
  }
}

TEST(LocalSgd, WeighsGradientsBySamples) {
  ToyRun run = local_run(3);
  run.sync.local_sgd.start = {10, false};
  run.batch_weight = {0.5, 1.5};
  ToyRun bsp;
  bsp.gradient = [](int rank, int64_t step, std::span<const float> x,
                    std::span<float> gradient) {
    test::quadratic_gradient(rank, step, x, gradient);
    for (float& value : gradient) value *= rank == 0 ? 0.5f : 1.5f;
  };
  EXPECT_EQ(test::train_toy(2, run).parameters,
            test::train_toy(2, bsp).parameters);
}

TEST(LocalSgd, AveragesStatisticsWithTheParameters) {
  ToyRun run = local_run(2);
  run.steps = 2;
  EXPECT_EQ(test::train_toy(3, run).buffers, Matrix(3, {1.5, 1.5, 1.5}));
  run.sync.local_sgd.batchnorm = Statistics::kLocal;
  EXPECT_EQ(test::train_toy(3, run).buffers[2][0], 2.5);
}

// Boundaries and resumes within a round and between synchronous steps.
TEST(LocalSgd, GoesOnToTheBit) {
  for (const OuterStep outer : {OuterStep::kAverage, OuterStep::kMomentum}) {
    ToyRun run = local_run(4);
    run.steps = 14;
    run.optimizer.momentum = 0.9;
    run.sync.local_sgd.outer = outer;
    run.sync.local_sgd.outer_nesterov = true;
    run.sync.local_sgd.start = {3, false};
    run.boundary_every = 2;
    test::expect_boundaries_change_nothing(3, run, {2, 4, 6, 8, 12});
  }
}

// In virtual time nothing but the end of a round makes a worker wait: worker 0
// is slow at the beginning of a long round and worker 1 at its end.
TEST(LocalSgd, LongRoundsHaveNoOtherMeetings) {
  for (const char* scheme : {"local_sgd", "easgd"}) {
    ToyRun run = test::run_of(scheme);
    run.steps = 200;
    run.sync.local_sgd.steps = run.sync.easgd.steps = 200;
    run.optimizer.lr = 0.001;
    run.boundary_every = 25;
    run.step_time = [](int rank, int64_t step) {
      const bool is_slow = rank == 0 ? step <= 20 : step > 180;
      return is_slow ? 10.0 : 1.0;
    };
    const test::ToyResult parted =
        test::expect_boundaries_change_nothing(2, run, {50});
    for (const double clock : parted.clock)
      EXPECT_NEAR(clock, 380, 1e-9) << scheme;
  }
}

TEST(LocalSgd, SendsWhatTheFormulaSays) {
  for (const int N : {1, 2, 3, 4, 8}) {
    ToyRun run = local_run(4);
    run.sync.local_sgd.start = {2, false};
    run.steps = 11;  // two together, two rounds, one more
    const auto result = test::train_toy(N, run);
    for (int rank = 0; rank < N; ++rank) {
      const auto bytes = [&](int64_t elems) {
        return all_reduce_bytes(CollectiveAlgorithm::kRing, N, rank, elems,
                                Wire::kF32);
      };
      EXPECT_EQ(result.payload_bytes[rank],
                2 * (3 * bytes(16) + bytes(3)) + 2 * (bytes(48) + bytes(3)));
    }
  }
}

// A round takes the time that the slowest worker needs for all of its steps.
TEST(LocalSgd, WaitsOnceARound) {
  ToyRun run = local_run(2);
  std::vector<int64_t> taken(2);
  run.step_time = [&](int rank, int64_t) {
    return taken[rank]++ % 2 == rank ? 4.0 : 1.0;
  };
  run.steps = 4;
  EXPECT_EQ(test::train_toy(2, run).clock, (std::vector<double>{10, 10}));
  taken = {0, 0};
  run.steps = 5;  // the last one is not followed by a mean
  EXPECT_EQ(test::train_toy(2, run).clock, (std::vector<double>{14, 11}));
  taken = {0, 0};
  run.sync.scheme = "bsp";
  EXPECT_EQ(test::train_toy(2, run).clock, (std::vector<double>{20, 20}));
}

// Within a round no worker waits, not even to agree on the end.
TEST(LocalSgd, GoesAheadWithinARound) {
  ToyRun run = local_run(4);
  bool is_first = true;
  run.step_time = [&](int rank, int64_t) {
    return rank == 1 && std::exchange(is_first, false) ? 40.0 : 1.0;
  };
  run.steps = 3;
  EXPECT_EQ(test::train_toy(2, run).clock, (std::vector<double>{3, 42}));
}

TEST(LocalSgd, OrderOfBucketsDoesNotMatter) {
  ToyRun run = local_run(4);
  run.sync.local_sgd.start = {4, false};
  const auto whole = test::train_toy(2, run).parameters;
  run.bucket_elems = 7;
  EXPECT_EQ(test::train_toy(2, run).parameters, whole);
}

TEST(LocalSgd, RefusesRoundedParameters) {
  ToyRun run = local_run(4);
  EXPECT_EQ(test::obstacle_of(run, 2), "");
  run.sync.wire = Wire::kBf16;
  EXPECT_TRUE(test::obstacle_of(run, 2).starts_with("sync.wire: "));
  run = local_run(0);
  EXPECT_TRUE(test::obstacle_of(run, 2).starts_with("local_sgd.steps: "));
}

}  // namespace
}  // namespace syncopate
