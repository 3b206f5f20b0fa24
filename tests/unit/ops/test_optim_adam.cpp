#include <cmath>
#include <limits>

#include "ops/optim_update.h"
#include "reference/optim_adam.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

GuardedTensor zeros(int64_t elems) {
  return flat(std::vector<double>(static_cast<size_t>(elems), 0.0));
}

AdamParams params_at(int step, bool is_decoupled, int64_t lazy_row = 0) {
  return {.rate = 0.01f,
          .beta1 = 0.9f,
          .beta2 = 0.99f,
          .eps = 1e-6f,
          .weight_decay = 0.02f,
          .is_decoupled = is_decoupled,
          .correction1 = static_cast<float>(1 - std::pow(double{0.9f}, step)),
          .correction2 = static_cast<float>(1 - std::pow(double{0.99f}, step)),
          .lazy_row = lazy_row};
}

reference::Adam reference_of(const AdamParams& params) {
  return {.rate = params.rate,
          .beta1 = params.beta1,
          .beta2 = params.beta2,
          .eps = params.eps,
          .weight_decay = params.weight_decay,
          .is_decoupled = params.is_decoupled,
          .grad_scale = params.grad_scale,
          .lazy_row = params.lazy_row,
          .m = {},
          .v = {}};
}

// Random values of which most rows of `row` are zero, some as -0, and some
// have one element that is not.
std::vector<double> gradient_of_few_rows(int64_t rows,
                                         int64_t row,
                                         uint64_t seed) {
  auto values = random_values(rows * row, seed);
  for (int64_t r = 0; r < rows; ++r) {
    const auto kind = (static_cast<uint64_t>(r) * 2654435761u + seed) % 8;
    for (int64_t d = 0; d < row; ++d) {
      double& value = values[r * row + d];
      if (kind > 2 || (kind == 2 && d != row - 1)) value = value < 0 ? -0.0 : 0;
    }
  }
  return values;
}

struct Moments {
  int64_t n;
  GuardedTensor x = flat(n, 1), m = zeros(n), v = zeros(n);
  explicit Moments(int64_t elems) : n(elems) {}
  void step(Context& context,
            const GuardedTensor& gradient,
            const AdamParams& params) const {
    adam_update(context, x, m, v, gradient, params);
  }
  bool operator==(const Moments& other) const {
    return x.bytes() == other.x.bytes() && m.bytes() == other.m.bytes() &&
           v.bytes() == other.v.bytes();
  }
};

// Each of 20 steps is at most 3 rates long and rounds a result below 2, whose
// quotient has seen some ten roundings.
constexpr Tolerance kTwentySteps = {24 * kEpsilonF32 + 20 * 3 * 0.01 * 2e-6, 0};

TEST(OptimAdam, FollowsItsFormula) {
  for (const int64_t n : {1, 15, 16, 17, 8193, 20011})
    for (const bool is_decoupled : {false, true}) {
      TestContext test;
      const Moments moments(n);
      reference::Adam expected = reference_of(params_at(1, is_decoupled));
      expected.grad_scale = 0.25;
      auto xs = moments.x.get();
      for (int step = 1; step <= 20; ++step) {
        const GuardedTensor g = flat(n, 100 + step);
        AdamParams params = params_at(step, is_decoupled);
        params.grad_scale = 0.25f;
        moments.step(test.context, g, params);
        expected.step(&xs, g.get());
      }
      EXPECT_TRUE(all_near(moments.x.get(), xs, kTwentySteps));
      EXPECT_TRUE(all_near(moments.m.get(), expected.m, {8 * kEpsilonF32, 0}));
      EXPECT_TRUE(all_near(moments.v.get(), expected.v, {8 * kEpsilonF32, 0}));
    }
}

TEST(OptimAdam, LeavesRowsWithoutGradientAlone) {
  for (const auto& [rows, row] : {std::pair<int64_t, int64_t>{4001, 1},
                                  {3001, 10},
                                  {7, 16},
                                  {301, 17},
                                  {211, 64},
                                  {19, 1024},
                                  {2, 10007}})
    for (const bool is_decoupled : {false, true}) {
      TestContext test;
      const Moments moments(rows * row);
      reference::Adam expected = reference_of(params_at(1, is_decoupled, row));
      const auto start = moments.x.get();
      auto xs = start;
      std::vector<bool> is_touched(static_cast<size_t>(rows));
      for (int step = 1; step <= 3; ++step) {
        const auto g = gradient_of_few_rows(rows, row, step);
        moments.step(test.context, flat(g), params_at(step, is_decoupled, row));
        expected.step(&xs, g);
        for (size_t i = 0; i < g.size(); ++i)
          if (g[i] != 0) is_touched[i / static_cast<size_t>(row)] = true;
      }
      EXPECT_TRUE(all_near(moments.x.get(), xs, kTwentySteps)) << row;
      EXPECT_TRUE(all_near(moments.m.get(), expected.m, {4 * kEpsilonF32, 0}));
      EXPECT_TRUE(all_near(moments.v.get(), expected.v, {4 * kEpsilonF32, 0}));
      // To the bit, and there are such rows.
      int64_t untouched = 0;
      const auto after = moments.x.get();
      for (size_t i = 0; i < xs.size(); ++i)
        if (!is_touched[i / static_cast<size_t>(row)]) {
          ++untouched;
          EXPECT_EQ(after[i], start[i]) << row << " " << i;
        }
      if (rows > 100) {
        EXPECT_GT(untouched, rows * row / 16);
      }
    }
}

// If all rows have a gradient, both use the same arithmetic.
TEST(OptimAdam, LazyAndDenseHaveTheSameBitsWhereAllRowsHaveGradients) {
  TestContext test;
  const int64_t rows = 1009, row = 10;
  const Moments dense(rows * row), lazy(rows * row);
  const GuardedTensor g = flat(rows * row, 7);
  dense.step(test.context, g, params_at(1, false));
  lazy.step(test.context, g, params_at(1, false, row));
  EXPECT_TRUE(dense == lazy);
}

TEST(OptimAdam, DirectionIsTheStepWithoutTheRate) {
  const int64_t rows = 1501, row = 10, n = rows * row;
  for (const int64_t lazy_row : {int64_t{0}, row})
    for (const bool is_decoupled : {false, true}) {
      TestContext test;
      const Moments stepped(n), moments(n);
      const AdamParams params = params_at(3, is_decoupled, lazy_row);
      const GuardedTensor g = flat(gradient_of_few_rows(rows, row, 5)),
                          d(DType::kF32, {n});
      stepped.step(test.context, g, params);
      adam_direction(test.context, d, moments.x, moments.m, moments.v, g,
                     params);
      EXPECT_EQ(moments.m.bytes(), stepped.m.bytes());
      EXPECT_EQ(moments.v.bytes(), stepped.v.bytes());
      auto xs = moments.x.get();
      EXPECT_EQ(xs, flat(n, 1).get());
      const auto ds = d.get();
      for (size_t i = 0; i < xs.size(); ++i) xs[i] -= double{0.01f} * ds[i];
      // The step rounds once or twice.
      EXPECT_TRUE(all_near(stepped.x.get(), xs, {2 * kEpsilonF32, 0}));
      // In the gradient's place.
      const Moments again(n);
      adam_direction(test.context, g, again.x, again.m, again.v, g, params);
      EXPECT_EQ(g.bytes(), d.bytes());
      EXPECT_EQ(again.v.bytes(), stepped.v.bytes());
    }
}

// A server shard updates a slice: the bits must be those of the whole range,
// wherever the gradient begins.
TEST(OptimAdam, SlicesAndThreadsHaveTheBitsOfTheWhole) {
  const int64_t row = 10, rows = 3001, n = rows * row;
  for (const int64_t lazy_row : {int64_t{0}, row}) {
    TestContext test, one(1);
    const AdamParams params = params_at(1, true, lazy_row);
    const GuardedTensor g = flat(gradient_of_few_rows(rows, row, 3));
    const GuardedTensor shifted = flat(moved_by(3, 0.0, g.get()));
    const Moments whole(n), sliced(n);
    whole.step(test.context, g, params);
    for (const auto& [begin, count] :
         {std::pair<size_t, size_t>{0, 10}, {10, 9990}, {10000, 20010}})
      adam_update(one.context, sliced.x.span().subspan(begin, count),
                  sliced.m.span().subspan(begin, count),
                  sliced.v.span().subspan(begin, count),
                  shifted.span().subspan(begin + 3, count), params);
    EXPECT_TRUE(whole == sliced);
  }
}

TEST(OptimAdam, ClipFactorScalesTheGradient) {
  TestContext test;
  const DeviceValues<float> half(0.5f);
  const Moments scaled(1001), clipped(1001);
  const GuardedTensor g = flat(1001, 9);
  AdamParams params = params_at(2, false);
  params.grad_scale = 0.25f;
  scaled.step(test.context, g, params);
  params.grad_scale = 0.5f;
  params.clip_factor = half;
  clipped.step(test.context, g, params);
  EXPECT_TRUE(scaled == clipped);
}

// A row whose gradient is NaN is not mistaken for a row without a gradient.
TEST(OptimAdam, NanTouchesItsRow) {
  TestContext test;
  const Moments moments(40);
  auto gradient = std::vector<double>(40, 0.0);
  gradient[13] = std::numeric_limits<double>::quiet_NaN();
  moments.step(test.context, flat(gradient), params_at(1, false, 10));
  const auto after = moments.x.get(), before = flat(40, 1).get();
  for (int i = 0; i < 40; ++i) {
    const bool is_touched = i >= 10 && i < 20;  // weight decay acts there
    EXPECT_EQ(std::isnan(after[i]), i == 13);
    EXPECT_EQ(after[i] == before[i], !is_touched);
  }
}

TEST(OptimAdam, NothingIsTooLittle) {
  TestContext test;
  const AdamParams params = params_at(1, true);
  adam_update(test.context, {}, {}, {}, {}, params);
  adam_direction(test.context, {}, {}, {}, {}, {}, params);
  EXPECT_THROW(adam_update(test.context, {}, zeros(1), {}, {}, params), Error);
}

}  // namespace
}  // namespace syncopate
