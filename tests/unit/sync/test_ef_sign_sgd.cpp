// Signs with error feedback against the formulas in double.
#include "compress/compressor.h"
#include "unit/sync/compressed_reference.h"

namespace syncopate {
namespace {

using test::CompressedReference;
using test::ToyRun;

ToyRun sign_run() {
  return test::run_of("ef_sign_sgd");
}

// q = |p|_1 / elements * sign(p)
void sign(int64_t, std::span<const double> p, std::span<double> q) {
  double scale = 0;
  for (const double value : p) scale += std::abs(value) / std::ssize(p);
  for (size_t i = 0; i < p.size(); ++i) q[i] = p[i] < 0 ? -scale : scale;
}

TEST(EfSignSgd, FollowsItsFormula) {
  for (const int N : {1, 2, 3, 4, 6, 8, 9})
    for (const double momentum : {0.0, 0.9}) {
      ToyRun run = sign_run();
      run.steps = 5;
      run.optimizer.momentum = momentum;
      run.optimizer.weight_decay = 0.01;
      CompressedReference expected(N, run);
      expected.compress = sign;
      test::expect_follows(N, run, expected, /*has_momentum=*/false);
    }
}

TEST(EfSignSgd, LosesNothing) {
  for (const int N : {1, 3, 4})
    EXPECT_GT(test::expect_feedback(N, sign_run()), 0.001);
}

// Signs without feedback would oscillate with the amplitude of their scale.
TEST(EfSignSgd, ComesToTheOptimum) {
  ToyRun run = sign_run();
  run.steps = 400;
  run.gradient = [](int rank, int64_t, std::span<const float> x,
                    std::span<float> gradient) {
    test::quadratic_gradient(rank, 0, x, gradient);
  };
  const auto result = test::train_toy(3, run);
  for (size_t i = 0; i < 48; ++i)  // the mean of the workers' targets
    EXPECT_NEAR(result.parameters[0][i], 2 * (0.1 + 0.01 * (i % 7)), 0.02);
}

TEST(EfSignSgd, SendsASignAnElement) {
  for (const int N : {1, 2, 4, 9}) {
    const ToyRun run = sign_run();
    // 48 signs and 3 scales, to each of the others, 10 times.
    const int64_t bytes = 10 * (N - 1) * (8 + 3 * 4);
    const auto result = test::train_toy(N, run);
    EXPECT_EQ(result.payload_bytes, std::vector<int64_t>(N, bytes));
    EXPECT_EQ(result.payload_messages, std::vector<int64_t>(N, 10 * (N - 1)));
  }
}

TEST(EfSignSgd, GoesOnToTheBit) {
  ToyRun run = sign_run();
  run.optimizer.momentum = 0.9;
  run.boundary_every = 3;
  test::expect_boundaries_change_nothing(3, run, {3, 9});
}

// The slowest worker determines the pace. The others wait for its last message;
// their own messages have arrived before.
TEST(EfSignSgd, WaitsForTheSlowest) {
  ToyRun run = sign_run();
  run.step_s = {1, 4, 2};
  EXPECT_EQ(test::train_toy(3, run).clock, std::vector<double>(3, 40));
  EXPECT_EQ(test::train_toy(3, run, {.latency_s = 0.5}).clock,
            (std::vector<double>{40.5, 40, 40.5}));
}

TEST(EfSignSgd, ClipsEachWorkersGradient) {
  ToyRun run = sign_run();
  run.steps = 5;
  run.optimizer.clip_norm = 0.5;
  CompressedReference expected(3, run);
  expected.compress = sign;
  expected.clip = 0.5;
  test::expect_follows(3, run, expected, /*has_momentum=*/false);
}

}  // namespace
}  // namespace syncopate
