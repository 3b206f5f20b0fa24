#include <array>
#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
namespace {

// std::fma fixes which product is fused. An element depends only on its own
// index, even if y is one of the terms, so ivdep is valid.
template <int kTerms>
void combine_terms(Context& context, std::span<float> y, const Term* terms) {
  parallel_pieces(context, std::ssize(y), [&](int64_t begin, int64_t end) {
    std::array<const float*, kTerms> from;
    std::array<float, kTerms> factor;
    for (int t = 0; t < kTerms; ++t) {
      from[t] = terms[t].values.data();
      factor[t] = terms[t].factor;
    }
    float* to = y.data();
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) {
      float sum = factor[0] * from[0][i];
      for (int t = 1; t < kTerms; ++t)
        sum = std::fma(factor[t], from[t][i], sum);
      to[i] = sum;
    }
  });
}

}  // namespace

void combine(Context& context,
             std::span<float> y,
             std::initializer_list<Term> terms) {
  constexpr decltype(&combine_terms<1>) kBodies[] = {
      combine_terms<1>, combine_terms<2>, combine_terms<3>, combine_terms<4>};
  kBodies[terms.size() - 1](context, y, terms.begin());
}

void compensate(Context& context,
                std::span<float> g,
                std::span<const float> x,
                std::span<const float> backup,
                float lambda) {
  parallel_pieces(context, std::ssize(g), [&](int64_t begin, int64_t end) {
    float* to = g.data();
    const float *now = x.data(), *then = backup.data();
    const float factor = lambda;
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i)
      to[i] = std::fma(factor * to[i] * to[i], now[i] - then[i], to[i]);
  });
}

void add_in_units(Context& context,
                  std::span<float> y,
                  int factor,
                  std::span<const float> x,
                  float unit) {
  parallel_pieces(context, std::ssize(y), [&](int64_t begin, int64_t end) {
    float* to = y.data();
    const float* from = x.data();
    const float step = static_cast<float>(factor) * unit, per_unit = 1 / unit;
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i)
      to[i] = std::fma(step, std::rint(from[i] * per_unit), to[i]);
  });
}

namespace {

constexpr int64_t kChunkRows = 4096;

// `partial` has ceil_div(rows, kChunkRows) doubles.
double dot_columns(Context& context,
                   double* partial,
                   const double* a,
                   const double* b,
                   int64_t rows) {
  const int64_t chunks = ceil_div(rows, kChunkRows);
  parallel_for(context, chunks, rows, [&](int64_t chunk) {
    const int64_t begin = chunk * kChunkRows;
    const int64_t end = std::min(rows, begin + kChunkRows);
    constexpr int kSums = 16;  // independent sums, for vectorisation
    double sums[kSums] = {};
    int64_t row = begin;
    for (; row + kSums <= end; row += kSums)
      for (int i = 0; i < kSums; ++i) sums[i] += a[row + i] * b[row + i];
    for (; row < end; ++row) sums[row % kSums] += a[row] * b[row];
    partial[chunk] = 0;
    for (const double sum : sums) partial[chunk] += sum;
  });
  double total = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) total += partial[chunk];
  return total;
}

}  // namespace

// In double and by columns, so the rounding residue of a linearly dependent
// column is far below the norm that counts as zero.
void orthonormalize(Context& context,
                    std::span<float> p,
                    int64_t rows,
                    int64_t rank) {
  constexpr double kSmallest = 1e-8;  // relative to the column's initial norm
  auto* columns = scratch<double>(context, rows * rank);
  auto* partial = scratch<double>(context, ceil_div(rows, kChunkRows), 1);
  const auto column = [&](int64_t k) { return columns + k * rows; };
  const auto norm_of = [&](int64_t k) {
    return std::sqrt(dot_columns(context, partial, column(k), column(k), rows));
  };
  std::vector<double> first_norms;
  for (int64_t k = 0; k < rank; ++k) {
    for (int64_t row = 0; row < rows; ++row)
      column(k)[row] = static_cast<double>(p[row * rank + k]);
    first_norms.push_back(norm_of(k));
  }
  for (int64_t k = 0; k < rank; ++k) {
    double* q = column(k);
    const double norm = norm_of(k);
    const bool is_zero = norm <= kSmallest * first_norms[k];
    const double factor = is_zero ? 0 : 1 / norm;
    for (int64_t row = 0; row < rows; ++row) q[row] *= factor;
    for (int64_t later = k + 1; later < rank; ++later) {
      double* v = column(later);
      const double along = dot_columns(context, partial, q, v, rows);
      for (int64_t row = 0; row < rows; ++row) v[row] -= along * q[row];
    }
  }
  for (int64_t k = 0; k < rank; ++k)
    for (int64_t row = 0; row < rows; ++row)
      p[row * rank + k] = static_cast<float>(column(k)[row]);
}

}  // namespace syncopate::cpu
