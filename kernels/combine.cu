#include "ops/combine.h"

#include <cmath>

#include "cuda/pack.cuh"
#include "cuda/range.cuh"
#include "cuda/reduce.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int kCombinePack = kPackElems<float>;
constexpr unsigned kCombineThreads = 256;

struct Terms {
  const float* values[4];  // null beyond the last
  float factors[4];
};

template <int kTerms>
__global__ void __launch_bounds__(kCombineThreads)
    combine_kernel(float* y, Terms terms, RangeSplit range) {
  for_range<kCombinePack>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    Elems from[kTerms], sum;
    for (int t = 0; t < kTerms; ++t)
      from[t] = Elems::load(terms.values[t] + first);
    for (int i = 0; i < width(); ++i) {
      sum.elem[i] = terms.factors[0] * from[0].elem[i];
      for (int t = 1; t < kTerms; ++t)
        sum.elem[i] = fmaf(terms.factors[t], from[t].elem[i], sum.elem[i]);
    }
    sum.store(y + first);
  });
}

void combine(Context& context,
             std::span<float> y,
             std::initializer_list<Term> terms) {
  constexpr decltype(&combine_kernel<1>) kKernels[] = {
      combine_kernel<1>, combine_kernel<2>, combine_kernel<3>,
      combine_kernel<4>};
  Terms given{};
  for (size_t t = 0; t < terms.size(); ++t) {
    given.values[t] = terms.begin()[t].values.data();
    given.factors[t] = terms.begin()[t].factor;
  }
  const RangeSplit range = split_range<kCombinePack>(
      std::ssize(y), y.data(), given.values[0], given.values[1],
      given.values[2], given.values[3]);
  launch(kKernels[terms.size() - 1],
         dim3(grid_for(range.items(kCombinePack), kCombineThreads)),
         dim3(kCombineThreads), 0, context.stream(), y.data(), given, range);
}

__global__ void __launch_bounds__(kCombineThreads)
    compensate_kernel(float* g,
                      const float* x,
                      const float* backup,
                      float lambda,
                      RangeSplit range) {
  for_range<kCombinePack>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    Elems gs = Elems::load(g + first);
    const Elems xs = Elems::load(x + first), old = Elems::load(backup + first);
    for (int i = 0; i < width(); ++i)
      gs.elem[i] = fmaf(lambda * gs.elem[i] * gs.elem[i],
                        xs.elem[i] - old.elem[i], gs.elem[i]);
    gs.store(g + first);
  });
}

void compensate(Context& context,
                std::span<float> g,
                std::span<const float> x,
                std::span<const float> backup,
                float lambda) {
  const RangeSplit range = split_range<kCombinePack>(std::ssize(g), g.data(),
                                                     x.data(), backup.data());
  launch(compensate_kernel,
         dim3(grid_for(range.items(kCombinePack), kCombineThreads)),
         dim3(kCombineThreads), 0, context.stream(), g.data(), x.data(),
         backup.data(), lambda, range);
}

__global__ void __launch_bounds__(kCombineThreads)
    add_in_units_kernel(float* y,
                        const float* x,
                        float step,
                        float per_unit,
                        RangeSplit range) {
  for_range<kCombinePack>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    Elems ys = Elems::load(y + first);
    const Elems xs = Elems::load(x + first);
    for (int i = 0; i < width(); ++i)
      ys.elem[i] = fmaf(step, rintf(xs.elem[i] * per_unit), ys.elem[i]);
    ys.store(y + first);
  });
}

void add_in_units(Context& context,
                  std::span<float> y,
                  int factor,
                  std::span<const float> x,
                  float unit) {
  const RangeSplit range =
      split_range<kCombinePack>(std::ssize(y), y.data(), x.data());
  launch(add_in_units_kernel,
         dim3(grid_for(range.items(kCombinePack), kCombineThreads)),
         dim3(kCombineThreads), 0, context.stream(), y.data(), x.data(),
         static_cast<float>(factor) * unit, 1 / unit, range);
}

constexpr unsigned kColumnThreads = 512;

__device__ __forceinline__ double dot_columns(const double* a,
                                              const double* b,
                                              int64_t rows) {
  double sum = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x)
    sum += a[row] * b[row];
  return block_sum(sum, shared_memory<double>());
}

// One block, each of whose threads handles its own rows of the columns; threads
// exchange only sums. Computed in double, so that the rounding residue of a
// linearly dependent column is far below the norm that counts as zero.
__global__ void __launch_bounds__(kColumnThreads)
    orthonormalize_kernel(float* p,             // (rows, rank)
                          double* columns,      // (rank, rows)
                          double* first_norms,  // (rank)
                          int64_t rows,
                          int64_t rank) {
  constexpr double kSmallest = 1e-8;  // relative to the column's initial norm
  for (int64_t k = 0; k < rank; ++k) {
    double* column = columns + k * rows;
    for (int64_t row = threadIdx.x; row < rows; row += blockDim.x)
      column[row] = static_cast<double>(p[row * rank + k]);
    const double squares = dot_columns(column, column, rows);
    if (threadIdx.x == 0) first_norms[k] = sqrt(squares);
  }
  __syncthreads();
  for (int64_t k = 0; k < rank; ++k) {
    double* q = columns + k * rows;
    const double norm = sqrt(dot_columns(q, q, rows));
    const bool is_zero = norm <= kSmallest * first_norms[k];
    const double factor = is_zero ? 0 : 1 / norm;
    for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
      q[row] *= factor;
      p[row * rank + k] = static_cast<float>(q[row]);
    }
    for (int64_t later = k + 1; later < rank; ++later) {
      double* v = columns + later * rows;
      const double along = dot_columns(q, v, rows);
      for (int64_t row = threadIdx.x; row < rows; row += blockDim.x)
        v[row] -= along * q[row];
    }
  }
}

void orthonormalize(Context& context,
                    std::span<float> p,
                    int64_t rows,
                    int64_t rank) {
  if (p.empty()) return;
  auto* columns = static_cast<double*>(
      context.scratch((rows + 1) * rank * int64_t{sizeof(double)}));
  launch(orthonormalize_kernel, dim3(1), dim3(kColumnThreads),
         int64_t{kColumnThreads / kWarpSize} * int64_t{sizeof(double)},
         context.stream(), p.data(), columns, columns + rows * rank, rows,
         rank);
}

}  // namespace syncopate::cuda
