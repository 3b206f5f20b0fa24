// Recursions over all workers in double precision, directly from the formulas:
// the references for schemes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "unit/sync/toy_run.h"

namespace syncopate::test {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;  // (workers, elements) or W

inline Matrix zeros_like(const Matrix& x) {
  return Matrix(x.size(), Vector(x[0].size(), 0.0));
}

inline Matrix multiply(const Matrix& w, const Matrix& x) {
  Matrix y = zeros_like(x);
  for (size_t i = 0; i < w.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j)
      for (size_t e = 0; e < x[0].size(); ++e) y[i][e] += w[i][j] * x[j][e];
  return y;
}

// x + a * y
inline Matrix sum(const Matrix& x, double a, const Matrix& y) {
  Matrix z = x;
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t e = 0; e < x[0].size(); ++e) z[i][e] += a * y[i][e];
  return z;
}

inline Vector mean_of(const Matrix& x) {
  Vector mean(x[0].size(), 0.0);
  for (const Vector& row : x)
    for (size_t e = 0; e < mean.size(); ++e)
      mean[e] += row[e] / static_cast<double>(x.size());
  return mean;
}

// Replaces the rows of each group's members by their mean.
inline void average_groups(const std::vector<std::vector<int>>& groups,
                           Matrix& x) {
  for (const std::vector<int>& group : groups) {
    Matrix members;
    for (const int rank : group) members.push_back(x[rank]);
    for (const int rank : group) x[rank] = mean_of(members);
  }
}

inline Matrix start_of(const ToyRun& run, int workers) {
  Matrix x(workers, Vector(model_of(run).parameters().num_elems()));
  for (int i = 0; i < workers; ++i)
    for (size_t e = 0; e < x[i].size(); ++e)
      x[i][e] = static_cast<double>(run.start(i, static_cast<int64_t>(e)));
  return x;
}

// Row i: worker i's gradient at row i of x.
inline Matrix gradients_at(const ToyRun& run, int64_t step, const Matrix& x) {
  Matrix g = x;
  for (size_t i = 0; i < x.size(); ++i) {
    const std::vector<float> at(x[i].begin(), x[i].end());
    std::vector<float> gradient(at.size());
    (run.gradient ? run.gradient : quadratic_gradient)(static_cast<int>(i),
                                                       step, at, gradient);
    g[i].assign(gradient.begin(), gradient.end());
  }
  return g;
}

// A local step of every worker: m <- mu m + g(x), x <- x - lr m.
inline void local_step(const ToyRun& run, int64_t step, Matrix& x, Matrix& m) {
  m = sum(gradients_at(run, step, x), run.optimizer.momentum, m);
  x = sum(x, -run.optimizer.lr, m);
}

// The largest max(1, int(elems (1 - ratio))) values of `from`, into `to`.
inline void keep_largest(double ratio,
                         std::span<const double> from,
                         std::span<double> to) {
  const auto kept = std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(from.size()) * (1 - ratio)));
  std::vector<size_t> order(from.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::abs(from[a]) > std::abs(from[b]);
  });
  for (int64_t k = 0; k < kept; ++k) to[order[k]] = from[order[k]];
}

inline void expect_near(const Matrix& a, const Matrix& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    for (size_t e = 0; e < a[i].size(); ++e)
      ASSERT_NEAR(a[i][e], b[i][e], tolerance)
          << "worker " << i << " element " << e;
  }
}

}  // namespace syncopate::test
