#include "ops/interaction.h"

#include <algorithm>
#include <cmath>

#include "reference/interaction.h"
#include "support/gradient_check.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;
using Size = reference::Interaction;

// Half of the look-ups go to the first few rows, as those of small fields do.
std::vector<double> random_rows(const Size& size, uint64_t seed) {
  auto rows = random_values(size.N * size.F, seed);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto limit =
        static_cast<double>(i % 2 == 0 ? size.R : std::min<int64_t>(size.R, 3));
    rows[i] = std::floor((rows[i] + 1) / 2 * limit);
    rows[i] = std::clamp(rows[i], 0.0, limit - 1);
  }
  return rows;
}

// The op's tensors with random values.
struct Case {
  Size size;
  GuardedTensor rows{DType::kI32, {size.N, size.F}, random_rows(size, 1)};
  GuardedTensor embedding = random_tensor({size.R, size.D}, 2),
                first = random_tensor({size.R, 1}, 3), bias = flat({0.375});
  GuardedTensor x{DType::kF32, {size.N, size.F*size.D}},
      score{DType::kF32, {size.N, 1}};
  GuardedTensor dx = random_tensor({size.N, size.F*size.D}, 4),
                dscore = random_tensor({size.N, 1}, 5),
                dembedding = random_tensor({size.R, size.D}, 6),
                dfirst = random_tensor({size.R, 1}, 7), dbias = flat({0.5});

  explicit Case(const Size& of) : size(of) {}
  void forward(TestContext& test) {
    interaction_forward(test.context, x, score, rows, embedding, first, bias);
  }
  void backward(TestContext& test) {
    interaction_backward(test.context, dembedding, dfirst, dbias, dx, dscore,
                         rows, x);
  }
  std::vector<std::vector<char>> results() const {
    return {x.bytes(), score.bytes(), dembedding.bytes(), dfirst.bytes(),
            dbias.bytes()};
  }
};

const Size kSizes[] = {{1, 1, 1, 1},     {1, 2, 1, 3},     {3, 1, 5, 10},
                       {7, 39, 300, 10}, {33, 5, 17, 16},  {20, 3, 40, 31},
                       {5, 40, 1000, 4}, {65, 13, 90, 10}, {4, 3, 9, 64},
                       {300, 2, 7, 2},   {500, 4, 2, 10},  {2, 70, 5000, 47}};

TEST(Interaction, ForwardFollowsTheFormula) {
  for (const Size& size : kSizes) {
    TestContext test;
    Case on(size);
    on.forward(test);
    const auto expected = reference::interaction_forward(
        size, on.rows.get(), on.embedding.get(), on.first.get(), 0.375);
    EXPECT_EQ(on.x.get(), expected.x);
    // Squares of sums of F values up to 1, D times.
    const auto F = static_cast<double>(size.F), D = static_cast<double>(size.D);
    EXPECT_TRUE(all_near(on.score.get(), expected.score,
                         {(F * F * D + F) * kEpsilonF32, 4 * kEpsilonF32}));
  }
}

TEST(Interaction, BackwardFollowsTheFormulaAndAccumulates) {
  for (const Size& size : kSizes) {
    TestContext test;
    Case on(size);
    on.forward(test);
    auto embedding = on.dembedding.get(), first = on.dfirst.get();
    auto added = reference::interaction_backward(
        size, on.dx.get(), on.dscore.get(), on.rows.get(), on.x.get());
    on.backward(test);
    for (size_t i = 0; i < embedding.size(); ++i)
      embedding[i] += added.dembedding[i];
    for (size_t i = 0; i < first.size(); ++i) first[i] += added.dfirst[i];
    // A row is a sum of at most N F terms of up to F + 1.
    const auto F = static_cast<double>(size.F);
    const double terms = static_cast<double>(size.N) * F;
    EXPECT_TRUE(all_near(on.dembedding.get(), embedding,
                         {2 * terms * (F + 1) * kEpsilonF32, 0}));
    EXPECT_TRUE(all_near(on.dfirst.get(), first,
                         {2 * terms * kEpsilonF32, 2 * kEpsilonF32}));
    EXPECT_NEAR(on.dbias.get()[0], 0.5 + added.dbias,
                static_cast<double>(size.N) * 2 * kEpsilonF32);
  }
}

// A gradient may have more columns than x; they are not read.
TEST(Interaction, BackwardTakesWiderRows) {
  for (const Size& size : kSizes) {
    TestContext test;
    Case on(size), again(size);
    on.forward(test);
    on.backward(test);
    again.forward(test);
    const int64_t width = size.F * size.D, wider = width + 5;
    const auto dx = on.dx.get();
    std::vector<double> values(static_cast<size_t>(size.N * wider),
                               std::nan(""));
    for (int64_t i = 0; i < size.N * width; ++i)
      values[i / width * wider + i % width] = dx[i];
    again.dx = GuardedTensor(DType::kF32, {size.N, wider}, values);
    again.backward(test);
    EXPECT_EQ(again.results(), on.results());
  }
}

// Rows that no look-up names keep their bits.
TEST(Interaction, OtherRowsStay) {
  TestContext test;
  const Size size{40, 3, 64, 10};
  Case on(size);
  auto rows = on.rows.get();
  for (double& row : rows) row = row < 32 ? 2 * row : 4;  // even ones
  on.rows.set(rows);
  const auto before = on.dembedding.get(), first = on.dfirst.get();
  on.forward(test);
  on.backward(test);
  const auto after = on.dembedding.get(), first_after = on.dfirst.get();
  for (size_t row = 1; row < 64; row += 2) {
    EXPECT_EQ(first_after[row], first[row]);
    for (size_t d = 0; d < 10; ++d)
      EXPECT_EQ(after[row * 10 + d], before[row * 10 + d]);
  }
}

TEST(Interaction, BitsDoNotDependOnThreads) {
  const Size size{400, 39, 900, 10};  // enough for a team
  Case on(size), again(size);
  TestContext one(1), three(3);
  on.forward(one);
  on.backward(one);
  again.forward(three);
  again.backward(three);
  EXPECT_EQ(on.results(), again.results());
}

// A row's terms are added in order of (n, f): a small term is lost after a
// large one, but not before it.
TEST(Interaction, RepeatedRowsAreAddedInOrder) {
  TestContext test;
  const Size size{2, 3, 2, 1};
  Case on(size);
  on.rows.set({1, 1, 1, 1, 0, 1});
  on.dscore.set({0, 0});
  on.x.set({0, 0, 0, 0, 0, 0});
  on.dembedding.set({0, 0});
  on.dx.set({0x1p24, 1, -0x1p24, 1, 5, 0.5});
  on.backward(test);
  EXPECT_EQ(on.dembedding.get(), (std::vector<double>{5, 1.5}));
}

// Against central differences of sum(x dx) + sum(score dscore).
TEST(Interaction, GradientIsTheDerivative) {
  TestContext test;
  const Size size{6, 4, 5, 3};
  Case on(size);
  on.forward(test);
  on.dembedding.set(std::vector<double>(15, 0));
  on.dfirst.set(std::vector<double>(5, 0));
  on.dbias.set({0});
  on.backward(test);
  const auto dx = on.dx.get(), dscore = on.dscore.get();
  const auto objective = [&] {
    on.forward(test);
    const auto x = on.x.get(), score = on.score.get();
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += x[i] * dx[i];
    for (size_t n = 0; n < score.size(); ++n) sum += score[n] * dscore[n];
    return sum;
  };
  const auto check = [&](GuardedTensor& values, const GuardedTensor& gradient) {
    // Exact in fp32; the function is quadratic: no error but the rounding of
    // scores of some tens of terms near 1.
    constexpr double kStep = 0x1p-5;
    auto moved = values.get();
    const auto moved_objective = [&] {
      values.set(moved);
      return objective();
    };
    expect_derivative(moved, gradient.get(), moved_objective, kStep,
                      100 * kEpsilonF32 / kStep);
    values.set(moved);
  };
  check(on.embedding, on.dembedding);
  check(on.first, on.dfirst);
  check(on.bias, on.dbias);
}

TEST(Interaction, RecordedIsTheSame) {
  TestContext test;
  const Size size{50, 7, 80, 10};
  Case on(size), expected(size);
  const auto step = recorded(test, [&] {
    on.forward(test);
    on.backward(test);
  });
  for (const uint64_t seed : {2, 3}) {
    const auto rows = random_rows(size, seed);
    const auto gradient = random_values(size.R * size.D, seed);
    for (Case* each : {&on, &expected}) {
      each->rows.set(rows);
      each->dembedding.set(gradient);
      each->dfirst.set(std::vector<double>(80, 0.25));
      each->dbias.set({1});
    }
    step();
    expected.forward(test);
    expected.backward(test);
    EXPECT_EQ(on.results(), expected.results());
  }
}

// Memory before and after the table is never accessed.
TEST(Interaction, RowsOutsideAreRefusedOrNan) {
  for (const double bad : {-1.0, 9.0, 2e9}) {
    TestContext test;
    const Size size{4, 3, 9, 10};
    Case on(size);
    auto rows = on.rows.get();
    rows[4] = bad;  // sample 1
    on.rows.set(rows);
    if (test_device().kind() == DeviceKind::kCpu) {
      EXPECT_THROW(on.forward(test), Error);
      EXPECT_THROW(on.backward(test), Error);
      continue;
    }
    on.forward(test);
    on.backward(test);
    const auto score = on.score.get(), x = on.x.get();
    for (size_t n = 0; n < 4; ++n) EXPECT_EQ(std::isnan(score[n]), n == 1);
    EXPECT_TRUE(std::isnan(x[4 * 10]));
    EXPECT_FALSE(std::isnan(x[3 * 10]));
  }
}

}  // namespace
}  // namespace syncopate
