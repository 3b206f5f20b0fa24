// PowerSGD against its algorithm in double, and its identities.
#include <cmath>

#include "sync/power_sgd.h"
#include "unit/sync/compressed_reference.h"

namespace syncopate {
namespace {

using test::CapturedState;
using test::ToyRun;

// A matrix and two tensors that are sent uncompressed.
ToyRun power_run(int64_t rank = 2) {
  ToyRun run = test::run_of("power_sgd");
  run.sync.power_sgd.rank = rank;
  run.shapes = {Shape{12, 10}, Shape{5}, Shape{2, 2}};
  return run;
}
constexpr int kRows = 12, kCols = 10, kElems = 129;

TEST(PowerSgdLayout, SendsSmallTensorsWhole) {
  ParameterTable table;
  table.add("bias", Shape{7}, Role::kBias);
  table.add("filter", Shape{8, 4, 3, 3}, Role::kWeight);  // (8, 36)
  table.add("scale", Shape{}, Role::kWeight);
  table.add("square", Shape{4, 4}, Role::kWeight);  // 2 (4 + 4) = 16
  table.add("matrix", Shape{12, 10}, Role::kWeight);
  const PowerSgdLayout layout(table, 2);
  ASSERT_EQ(layout.matrices.size(), 2u);
  EXPECT_EQ(layout.matrices[0].rows, 8);
  EXPECT_EQ(layout.matrices[0].cols, 36);
  EXPECT_EQ(layout.matrices[0].offset, 7);
  EXPECT_EQ(layout.matrices[1].offset, 7 + 288 + 1 + 16);
  ASSERT_EQ(layout.wholes.size(), 2u);
  EXPECT_EQ(layout.wholes[1].elems, 17);  // scale and square as one
  EXPECT_EQ(layout.p_elems, 7 + 8 * 2 + 17 + 12 * 2);
  EXPECT_EQ(layout.q_elems, 2 * 36 + 2 * 10);
}

// The workers' gradients a_i b_i^T have two different b, so their sum has
// rank 2.
void low_rank_gradient(int rank,
                       int64_t step,
                       std::span<const float>,
                       std::span<float> gradient) {
  for (int i = 0; i < kElems; ++i)
    gradient[i] = std::sin(static_cast<float>(i + 3 * rank + step));
  for (int row = 0; row < kRows; ++row)
    for (int col = 0; col < kCols; ++col)
      gradient[row * kCols + col] =
          std::cos(static_cast<float>(row * (rank + 1) + 1)) *
          (rank % 2 == 0 ? 1.0f + 0.1f * static_cast<float>(col)
                         : std::sin(static_cast<float>(col)));
}

void expect_as_bsp(int workers, ToyRun run, double tolerance) {
  const auto result = test::train_toy(workers, run);
  test::expect_equal_replicas(result);
  run.sync.scheme = "bsp";
  test::expect_near(result.parameters, test::train_toy(workers, run).parameters,
                    tolerance);
}

TEST(PowerSgd, ReproducesGradientsOfItsRank) {
  for (const int N : {1, 2, 3, 4, 6, 8, 9}) {
    ToyRun run = power_run();
    run.gradient = low_rank_gradient;
    run.optimizer.momentum = 0.9;
    run.optimizer.nesterov = true;
    expect_as_bsp(N, run, 5e-5);
  }
}

// A gradient of zeros leaves a Q of zeros; the next gradient must still be
// found.
TEST(PowerSgd, WakesUpAfterAGradientOfZeros) {
  ToyRun run = power_run();
  run.steps = 2;
  run.gradient = [](int rank, int64_t step, std::span<const float> x,
                    std::span<float> gradient) {
    if (step > 0) low_rank_gradient(rank, step, x, gradient);
  };
  expect_as_bsp(2, run, 1e-5);
}

TEST(PowerSgd, ClipsTheMean) {
  ToyRun run = power_run();
  run.gradient = low_rank_gradient;
  run.optimizer.clip_norm = 0.5;
  expect_as_bsp(3, run, 1e-5);
}

// --- The algorithm in double -------------------------------------------------

using Values = test::Vector;

void orthonormalize(Values& p, int64_t rank) {
  for (int64_t k = 0; k < rank; ++k) {
    for (int64_t j = 0; j < k; ++j) {
      double along = 0;
      for (int i = 0; i < kRows; ++i)
        along += p[i * rank + j] * p[i * rank + k];
      for (int i = 0; i < kRows; ++i)
        p[i * rank + k] -= along * p[i * rank + j];
    }
    double norm = 0;
    for (int i = 0; i < kRows; ++i) norm += p[i * rank + k] * p[i * rank + k];
    for (int i = 0; i < kRows; ++i) p[i * rank + k] /= std::sqrt(norm);
  }
}

struct Reference {
  Values x, q;                   // q: (rank, cols)
  std::vector<Values> residual;  // by worker

  void take_step(const ToyRun& run, int64_t step) {
    const int64_t rank = run.sync.power_sgd.rank, N = std::ssize(residual);
    const test::Matrix gradients =
        test::gradients_at(run, step, test::Matrix(N, x));
    Values mean(kElems, 0.0), p(kRows * rank, 0.0), next(rank * kCols, 0.0);
    for (int64_t worker = 0; worker < N; ++worker) {
      const Values& gradient = gradients[worker];
      for (int i = 0; i < kElems; ++i) mean[i] += gradient[i] / double(N);
      for (int i = 0; i < kRows * kCols; ++i)
        residual[worker][i] += gradient[i];
      for (int i = 0; i < kRows; ++i)
        for (int k = 0; k < rank; ++k)
          for (int j = 0; j < kCols; ++j)
            p[i * rank + k] +=
                residual[worker][i * kCols + j] * q[k * kCols + j];
    }
    orthonormalize(p, rank);
    for (Values& m : residual) {
      Values own(rank * kCols, 0.0);
      for (int k = 0; k < rank; ++k)
        for (int j = 0; j < kCols; ++j)
          for (int i = 0; i < kRows; ++i)
            own[k * kCols + j] += m[i * kCols + j] * p[i * rank + k];
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kCols; ++j)
          for (int k = 0; k < rank; ++k)
            m[i * kCols + j] -= p[i * rank + k] * own[k * kCols + j];
      for (size_t i = 0; i < own.size(); ++i) next[i] += own[i] / double(N);
    }
    q = next;
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) {
        mean[i * kCols + j] = 0;
        for (int k = 0; k < rank; ++k)
          mean[i * kCols + j] += p[i * rank + k] * q[k * kCols + j];
      }
    for (int i = 0; i < kElems; ++i) x[i] -= run.optimizer.lr * mean[i];
  }
};

// Four steps, starting from the state after the first one.
TEST(PowerSgd, FollowsItsAlgorithm) {
  for (const int N : {1, 2, 3, 4, 8})
    for (const int64_t rank : {1, 2}) {
      ToyRun run = power_run(rank);
      run.start = [](int, int64_t i) {
        return std::sin(static_cast<float>(1 + i * i));
      };
      run.steps = 5;
      int64_t next = 1;
      Reference expected;
      expected.residual.resize(N);
      run.after_step = [&](int worker, const StepPlan& plan, Scheme& scheme,
                           Replica&) {
        if (plan.step != 0) return;
        const CapturedState state(scheme);
        expected.x = state["parameters"];
        expected.q = state["power_sgd_q"];
        expected.residual[worker] = state["residual"];
      };
      run.at_boundary = [&](int worker, int64_t, Scheme& scheme, Replica&) {
        for (; next < run.steps; ++next) expected.take_step(run, next);
        const CapturedState state(scheme);
        for (int i = 0; i < kElems; ++i) {
          EXPECT_NEAR(state["parameters"][i], expected.x[i], 2e-5);
          EXPECT_NEAR(state["residual"][i], expected.residual[worker][i], 2e-4);
        }
      };
      test::train_toy(N, run);
    }
}

TEST(PowerSgd, LosesNothing) {
  for (const int N : {1, 3, 4})
    for (const bool is_warm : {false, true}) {
      ToyRun run = power_run(1);
      run.sync.power_sgd.warm_start = is_warm;
      run.gradient = [](int rank, int64_t step, std::span<const float> x,
                        std::span<float> gradient) {
        test::quadratic_gradient(rank, step, x, gradient);
        gradient[step] += 1;  // of full rank in time
      };
      EXPECT_GT(test::expect_feedback(N, run), 0.01);
    }
}

// The same gradient at another step is projected onto another direction.
TEST(PowerSgd, DrawsAnewWithoutWarmStart) {
  ToyRun run = power_run(1);
  run.sync.power_sgd.warm_start = false;
  int64_t at = 0;
  run.gradient = [&](int, int64_t step, std::span<const float>,
                     std::span<float> gradient) {
    if (step != at) return;
    for (int i = 0; i < kElems; ++i)
      gradient[i] = std::sin(static_cast<float>(1 + i * i));
  };
  run.steps = 1;
  const auto first = test::train_toy(2, run).parameters[0];
  run.steps = 2;
  at = 1;
  const auto second = test::train_toy(2, run).parameters[0];
  double difference = 0;
  for (int i = 0; i < kRows * kCols; ++i)
    difference = std::max(difference, std::abs(first[i] - second[i]));
  EXPECT_GT(difference, 1e-3);
  for (int i = kRows * kCols; i < kElems; ++i) EXPECT_EQ(first[i], second[i]);
}

TEST(PowerSgd, SendsWhatTheFormulaSays) {
  for (const int N : {1, 2, 3, 4, 8}) {
    const auto result = test::train_toy(N, power_run());
    for (int rank = 0; rank < N; ++rank) {
      const auto bytes = [&](int64_t elems) {
        return all_reduce_bytes(CollectiveAlgorithm::kRing, N, rank, elems,
                                Wire::kF32);
      };
      EXPECT_EQ(result.payload_bytes[rank],
                10 * (bytes(2 * kRows + 9) + bytes(2 * kCols)));
    }
  }
}

TEST(PowerSgd, GoesOnToTheBit) {
  for (const bool is_warm : {false, true}) {
    ToyRun run = power_run(1);
    run.sync.power_sgd.warm_start = is_warm;
    run.optimizer.momentum = 0.9;
    run.start = [](int, int64_t i) {
      return std::sin(static_cast<float>(1 + i * i));
    };
    run.boundary_every = 3;
    test::expect_boundaries_change_nothing(3, run, {3, 9});
  }
}

// A large component of rank 1 that alternates its sign hides the descent
// direction from a projection of rank 1. The remainder accumulates in the
// residual until the projection finds it.
class Hidden {
 public:
  static double noise(int64_t step, int row, int col) {
    return (step % 2 == 0 ? 4.0 : -4.0) * std::cos(row) * std::sin(1.0 + col);
  }
  static double target(int row, int col) {
    return 0.3 * std::sin(1.0 + row * row + 3 * col);
  }
  // The distance in the part without noise: the columns' sum along cos(row).
  static double distance(const Values& x) {
    double square = 0, length = 0;
    for (int row = 0; row < kRows; ++row)
      length += std::cos(row) * std::cos(row);
    for (int col = 0; col < kCols; ++col) {
      double along = 0;
      for (int row = 0; row < kRows; ++row)
        along += (x[row * kCols + col] - target(row, col)) * std::cos(row);
      for (int row = 0; row < kRows; ++row) {
        const double rest = x[row * kCols + col] - target(row, col) -
                            along / length * std::cos(row);
        square += rest * rest;
      }
    }
    return std::sqrt(square);
  }
};

TEST(PowerSgd, FeedbackFindsWhatARankHides) {
  ToyRun run = power_run(1);
  run.steps = 3000;
  run.optimizer.lr = 0.01;
  run.start = [](int, int64_t) { return 0.0f; };
  run.gradient = [](int, int64_t step, std::span<const float> x,
                    std::span<float> gradient) {
    for (int i = 0; i < kRows * kCols; ++i)
      gradient[i] =
          static_cast<float>(x[i] - Hidden::target(i / kCols, i % kCols) +
                             Hidden::noise(step, i / kCols, i % kCols));
  };
  const double at_first = Hidden::distance(Values(kElems, 0.0));
  const double fed_back =
      Hidden::distance(test::train_toy(2, run).parameters[0]);
  // The same without a residual, in double.
  Reference plain{
      .x = Values(kElems, 0.0), .q = Values(kCols, 1.0), .residual = {}};
  for (int64_t step = 0; step < run.steps; ++step) {
    const Values gradient = test::gradients_at(run, step, {plain.x})[0];
    Values p(kRows, 0.0), q(kCols, 0.0);
    for (int i = 0; i < kRows * kCols; ++i)
      p[i / kCols] += gradient[i] * plain.q[i % kCols];
    orthonormalize(p, 1);
    for (int i = 0; i < kRows * kCols; ++i)
      q[i % kCols] += gradient[i] * p[i / kCols];
    for (int i = 0; i < kRows * kCols; ++i)
      plain.x[i] -= run.optimizer.lr * p[i / kCols] * q[i % kCols];
    plain.q = q;
  }
  EXPECT_GT(Hidden::distance(plain.x), 0.9 * at_first);
  EXPECT_LT(fed_back, 0.05 * at_first);
}

TEST(PowerSgd, RefusesNoRank) {
  EXPECT_TRUE(
      test::obstacle_of(power_run(0), 2).starts_with("power_sgd.rank: 0"));
}

}  // namespace
}  // namespace syncopate
