#include "ops/combine.h"

#include <cmath>
#include <limits>

#include "reference/compression.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

constexpr int64_t kSizes[] = {0, 1, 15, 17, 8192, 20011};
constexpr float kFactors[] = {0.3f, -1.7f, 0.9f, 2.3f};

void call_combine(Context& context,
                  std::span<float> y,
                  const std::vector<Term>& t) {
  switch (t.size()) {
    case 1:
      return combine(context, y, {t[0]});
    case 2:
      return combine(context, y, {t[0], t[1]});
    case 3:
      return combine(context, y, {t[0], t[1], t[2]});
    default:
      return combine(context, y, {t[0], t[1], t[2], t[3]});
  }
}

// The exact result on all devices: the first product is rounded, then there is
// one rounding per term.
std::vector<double> chain(size_t terms,
                          const std::vector<std::vector<double>>& values) {
  std::vector<double> result(values[0].size());
  for (size_t i = 0; i < result.size(); ++i) {
    float sum = kFactors[0] * static_cast<float>(values[0][i]);
    for (size_t t = 1; t < terms; ++t)
      sum = std::fma(kFactors[t], static_cast<float>(values[t][i]), sum);
    result[i] = static_cast<double>(sum);
  }
  return result;
}

TEST(Combine, AddsTermsInTheirOrderAlsoInPlace) {
  for (const int64_t n : kSizes)
    for (size_t terms = 1; terms <= 4; ++terms) {
      std::vector<std::vector<double>> values;
      for (size_t t = 0; t < terms; ++t) values.push_back(random_values(n, t));
      const auto expected = chain(terms, values);
      // target terms: y is another range.
      for (size_t target = 0; target <= terms; ++target) {
        TestContext test;
        std::vector<GuardedTensor> ranges;
        for (const auto& value : values) ranges.push_back(flat(value));
        ranges.push_back(GuardedTensor(DType::kF32, Shape{n}));
        std::vector<Term> list;
        for (size_t t = 0; t < terms; ++t)
          list.push_back({kFactors[t], ranges[t]});
        call_combine(test.context, ranges[target], list);
        EXPECT_EQ(ranges[target].get(), expected) << n << " " << target;
        for (size_t t = 0; t < terms; ++t) {
          if (t == target) continue;
          EXPECT_EQ(ranges[t].bytes(), flat(values[t]).bytes());
        }
      }
    }
}

TEST(Combine, FollowsItsFormulaAndSlicesNeedNotBeAligned) {
  TestContext test, one(1);
  const int64_t n = 9001;
  const auto a = random_values(n, 1), b = random_values(n, 2);
  const GuardedTensor x = flat(a), z = flat(b), whole = flat(a);
  combine(test.context, whole, {{0.75f, x}, {-0.5f, z}});
  std::vector<double> expected(a.size());
  for (size_t i = 0; i < a.size(); ++i) expected[i] = 0.75 * a[i] - 0.5 * b[i];
  // Inputs, a product and a sum are rounded; values below 2.
  EXPECT_TRUE(all_near(whole.get(), expected, {4 * kEpsilonF32, 0}));
  for (const size_t shift : {1, 2, 3}) {
    const GuardedTensor elsewhere = flat(moved_by(shift, 0.0, a));
    const GuardedTensor y(DType::kF32, Shape{n});
    combine(one.context, y,
            {{0.75f, elsewhere.span().subspan(shift)}, {-0.5f, z}});
    EXPECT_EQ(y.bytes(), whole.bytes());
  }
}

TEST(Combine, CompensateFollowsItsFormula) {
  for (const int64_t n : kSizes) {
    TestContext test;
    const auto g = random_values(n, 1), x = random_values(n, 2),
               backup = random_values(n, 3);
    const GuardedTensor to = flat(g);
    compensate(test.context, to, flat(x), flat(backup), 0.04f);
    std::vector<double> expected(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      const double gradient = g[i];
      expected[i] =
          gradient + double{0.04f} * gradient * gradient * (x[i] - backup[i]);
    }
    // Inputs and result are rounded once; the correction is below 0.1.
    EXPECT_TRUE(all_near(to.get(), expected, {3 * kEpsilonF32, 0}));
  }
}

// The same operations and roundings on every device.
TEST(Combine, CompensateRoundsAlikeEverywhere) {
  TestContext test;
  const int64_t n = 1003;
  const GuardedTensor g = flat(n, 1), x = flat(n, 2), backup = flat(n, 3);
  const auto gs = g.get(), xs = x.get(), old = backup.get();
  compensate(test.context, g, x, backup, 0.04f);
  std::vector<double> expected;
  for (size_t i = 0; i < gs.size(); ++i) {
    const auto gradient = static_cast<float>(gs[i]);
    const float factor = 0.04f * gradient * gradient;
    const float moved = static_cast<float>(xs[i]) - static_cast<float>(old[i]);
    expected.push_back(static_cast<double>(std::fma(factor, moved, gradient)));
  }
  EXPECT_EQ(g.get(), expected);
}

// Whole units are exact, and what one operation adds another takes back.
TEST(Combine, AddInUnitsAddsWholeUnits) {
  constexpr float kUnit = 0x1p-25f;
  for (const int64_t n : kSizes) {
    TestContext test;
    auto start = random_values(n, 1), x = random_values(n, 2);
    for (double& value : start)
      value = kUnit * std::nearbyint(value / 4 / kUnit);
    for (double& value : x) value = static_cast<float>(value / 8);
    for (int64_t i = 0; i < std::min<int64_t>(n, 4); ++i)
      x[i] = (static_cast<double>(i) - 1.5) * kUnit;  // ties, to even
    const GuardedTensor y = flat(start), other = flat(start);
    std::vector<double> minus = x, expected = start;
    for (double& value : minus) value = -value;
    add_in_units(test.context, y, 2, flat(x), kUnit);
    for (size_t i = 0; i < x.size(); ++i)
      expected[i] += 2 * kUnit * std::nearbyint(x[i] / kUnit);
    EXPECT_EQ(y.get(), expected);
    add_in_units(test.context, y, 1, flat(minus), kUnit);
    add_in_units(test.context, y, -1, flat(x), kUnit);
    for (int once = 0; once < 2; ++once)
      add_in_units(test.context, y, 1, flat(x), kUnit);
    add_in_units(test.context, y, -2, flat(x), kUnit);
    EXPECT_EQ(y.get(), other.get());
  }
}

TEST(Combine, OrthonormalizeFollowsItsFormula) {
  for (const auto& [rows, rank] : {std::pair<int64_t, int64_t>{1, 1},
                                   {7, 1},
                                   {7, 3},
                                   {64, 4},
                                   {513, 8},
                                   {20001, 2}}) {
    TestContext test, one(1), three(3);
    const GuardedTensor p = flat(rows * rank, 5);
    const GuardedTensor again = flat(p.get()), more = flat(p.get());
    const auto expected = reference::orthonormalize(p.get(), rows, rank);
    orthonormalize(test.context, p, rows, rank);
    orthonormalize(one.context, again, rows, rank);
    orthonormalize(three.context, more, rows, rank);
    // In double until the result is rounded: values of at most 1.
    EXPECT_TRUE(all_near(p.get(), expected, {1.01 * kEpsilonF32, 0}));
    EXPECT_EQ(again.bytes(), p.bytes());
    EXPECT_EQ(more.bytes(), p.bytes());
    const auto q = p.get();
    for (int64_t a = 0; a < rank; ++a)
      for (int64_t b = 0; b <= a; ++b) {
        double sum = 0;
        for (int64_t row = 0; row < rows; ++row)
          sum += q[row * rank + a] * q[row * rank + b];
        // Each product of a rounded q is off by an epsilon of its size.
        EXPECT_NEAR(sum, a == b ? 1 : 0, 4 * kEpsilonF32);
      }
  }
}

// A column in the span of the earlier ones becomes zero, as does a zero column;
// later columns are as if it were not there. Small integers are exact in fp32.
TEST(Combine, OrthonormalizeDropsDependentColumns) {
  TestContext test;
  const int64_t rows = 50, rank = 6;
  std::vector<double> p(static_cast<size_t>(rows * rank));
  std::vector<double> free_columns(static_cast<size_t>(rows * 3));
  for (int64_t row = 0; row < rows; ++row) {
    const auto a = static_cast<double>(row % 7 - 3);
    const auto b = static_cast<double>(row % 5 - 1);
    const auto c = static_cast<double>(row % 11);
    const double columns[] = {a, 2 * a, b, 0, a - 3 * b, c};
    std::copy_n(columns, rank, p.begin() + row * rank);
    const double independent[] = {a, b, c};
    std::copy_n(independent, 3, free_columns.begin() + row * 3);
  }
  const GuardedTensor q = flat(p);
  orthonormalize(test.context, q, rows, rank);
  const auto basis = reference::orthonormalize(free_columns, rows, 3);
  std::vector<double> expected(p.size(), 0.0);
  const int64_t places[] = {0, 2, 5};
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < 3; ++k)
      expected[row * rank + places[k]] = basis[row * 3 + k];
  EXPECT_TRUE(all_near(q.get(), expected, {1.01 * kEpsilonF32, 0}));
}

// Two rows hold two directions; the other columns are zero. Empty input is
// left alone.
TEST(Combine, OrthonormalizeOfMoreColumnsThanRows) {
  TestContext test;
  const GuardedTensor p = flat(2 * 5, 3);
  orthonormalize(test.context, p, 2, 5);
  const auto q = p.get();
  EXPECT_NEAR(q[0] * q[0] + q[5] * q[5], 1, 4 * kEpsilonF32);
  EXPECT_NEAR(q[0] * q[1] + q[5] * q[6], 0, 4 * kEpsilonF32);
  for (const size_t k : {2, 3, 4}) {
    EXPECT_EQ(q[k], 0);
    EXPECT_EQ(q[5 + k], 0);
  }
  orthonormalize(test.context, {}, 0, 3);
  orthonormalize(test.context, {}, 3, 0);
}

TEST(Combine, WhatIsNotANumberStaysSo) {
  TestContext test;
  auto values = random_values(40, 1);
  values[7] = std::numeric_limits<double>::quiet_NaN();
  const GuardedTensor p = flat(values), y = flat(values);
  orthonormalize(test.context, p, 10, 4);
  EXPECT_TRUE(std::isnan(p.get()[7]));
  combine(test.context, y, {{0.0f, y}});
  EXPECT_TRUE(std::isnan(y.get()[7]));
  EXPECT_EQ(y.get()[8], 0);
}

}  // namespace
}  // namespace syncopate
