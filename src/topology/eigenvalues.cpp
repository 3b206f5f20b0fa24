#include "topology/eigenvalues.h"

#include <algorithm>
#include <cmath>

namespace syncopate {
namespace {

struct Tridiagonal {
  std::vector<double> diagonal;      // (n)
  std::vector<double> off_diagonal;  // (n), the first is unused
};

// Householder: A <- H A H with H = I - 2 v v^T, column by column, where
//   p = A v,   w = 2 (p - (v . p) v),   H A H = A - v w^T - w v^T.
Tridiagonal tridiagonal_of(std::vector<double>& a, int n) {
  Tridiagonal result{std::vector<double>(n), std::vector<double>(n)};
  std::vector<double> v(n), w(n);
  for (int k = 0; k + 1 < n; ++k) {
    double squares = 0;
    for (int i = k + 1; i < n; ++i) squares += a[i * n + k] * a[i * n + k];
    const double head = a[(k + 1) * n + k];
    const double image = head > 0 ? -std::sqrt(squares) : std::sqrt(squares);
    result.diagonal[k] = a[k * n + k];
    result.off_diagonal[k + 1] = image;
    // |v|^2 of v = column - image * e: 2 squares - 2 head image.
    const double length = std::sqrt(2 * (squares - head * image));
    if (length == 0) continue;
    for (int i = k + 1; i < n; ++i) v[i] = a[i * n + k] / length;
    v[k + 1] = (head - image) / length;
    double along = 0;
    for (int i = k + 1; i < n; ++i) {
      double p = 0;
      for (int j = k + 1; j < n; ++j) p += a[i * n + j] * v[j];
      w[i] = p;
      along += v[i] * p;
    }
    for (int i = k + 1; i < n; ++i) w[i] = 2 * (w[i] - along * v[i]);
    for (int i = k + 1; i < n; ++i)
      for (int j = k + 1; j < n; ++j) a[i * n + j] -= v[i] * w[j] + w[i] * v[j];
  }
  result.diagonal[n - 1] = a[n * n - 1];
  return result;
}

// Sturm: the number of eigenvalues below x is the number of negative pivots of
// T - x I.
int eigenvalues_below(const Tridiagonal& t, double x) {
  int below = 0;
  double pivot = 1;
  for (size_t i = 0; i < t.diagonal.size(); ++i) {
    const double b = t.off_diagonal[i];
    pivot = t.diagonal[i] - x - (i > 0 ? b * b / pivot : 0);
    if (pivot == 0) pivot = 1e-300;
    if (pivot < 0) ++below;
  }
  return below;
}

// Finds by bisection the eigenvalue in [-bound, bound] that has `rank` smaller
// ones.
double eigenvalue(const Tridiagonal& t, int rank, double bound) {
  double low = -bound, high = bound;
  while (true) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high || high - low < 1e-16 * bound)
      return middle;
    (eigenvalues_below(t, middle) > rank ? high : low) = middle;
  }
}

}  // namespace

double spectral_radius(std::vector<double> matrix, int n) {
  double bound = 0;  // Gershgorin
  for (int i = 0; i < n; ++i) {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += std::abs(matrix[i * n + j]);
    bound = std::max(bound, sum);
  }
  if (bound == 0) return 0;
  const Tridiagonal t = tridiagonal_of(matrix, n);
  bound *= 1 + 1e-12;  // allows for rounding in the reduction
  return std::max(std::abs(eigenvalue(t, 0, bound)),
                  std::abs(eigenvalue(t, n - 1, bound)));
}

}  // namespace syncopate
