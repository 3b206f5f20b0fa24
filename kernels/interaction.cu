#include <cmath>

#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "cuda/sort.h"
#include "cuda/touched.cuh"
#include "ops/bodies.h"

// Rows are short (10 elements, as published): a warp takes several at a time,
// with each lane always on the same column.

namespace syncopate::cuda {

constexpr int kFmThreads = 128;
constexpr int kFmWarps = kFmThreads / kWarpSize;

// Columns [begin, begin + width) of rows, and their assignment to a warp's
// lanes.
struct Columns {
  int64_t begin;
  int width;   // at most a warp
  int groups;  // rows that a warp takes at a time; surplus lanes idle

  __host__ __device__ Columns(int64_t begin, int64_t D)
      : begin(begin),
        width(static_cast<int>(lesser<int64_t>(D - begin, kWarpSize))),
        groups(kWarpSize / width) {}
};

__device__ __forceinline__ int lane_of_thread() {
  return static_cast<int>(threadIdx.x) % kWarpSize;
}
__device__ __forceinline__ int64_t warp_of_grid() {
  return int64_t{blockIdx.x} * (blockDim.x / kWarpSize) +
         threadIdx.x / kWarpSize;
}
__device__ __forceinline__ int64_t warps_of_grid() {
  return int64_t{gridDim.x} * (blockDim.x / kWarpSize);
}

// Adds up the groups' values of each column into the first `width` lanes. All
// 32 lanes must call.
__device__ __forceinline__ float sum_of_groups(float value,
                                               const Columns& columns) {
  const int lane = lane_of_thread();
  float sum = value;
  for (int group = 1; group < columns.groups; ++group)
    sum += __shfl_sync(kAllLanes, value,
                       (lane + group * columns.width) % kWarpSize);
  return sum;
}

// One warp per sample.
__global__ void __launch_bounds__(kFmThreads)
    fm_forward_kernel(float* x,                // (N, F, D)
                      float* score,            // (N)
                      const int32_t* rows,     // (N, F)
                      const float* embedding,  // (R, D)
                      const float* first,      // (R)
                      const float* bias,
                      int64_t N,
                      int64_t F,
                      int64_t R,
                      int64_t D) {
  const int lane = lane_of_thread();
  for (int64_t n = warp_of_grid(); n < N; n += warps_of_grid()) {
    const int32_t* of_sample = rows + n * F;
    const auto value = [&](const float* table, int64_t row, int64_t column,
                           int64_t width) {
      return row >= 0 && row < R ? table[row * width + column] : NAN;
    };
    float sum = 0;
    for (int64_t f = lane; f < F; f += kWarpSize)
      sum += value(first, of_sample[f], 0, 1);
    for (int64_t begin = 0; begin < D; begin += kWarpSize) {
      const Columns columns(begin, D);
      const int group = lane / columns.width;
      const int64_t column = begin + lane % columns.width;
      float total = 0, squares = 0;
      for (int64_t f = group; group < columns.groups && f < F;
           f += columns.groups) {
        const float v = value(embedding, of_sample[f], column, D);
        x[(n * F + f) * D + column] = v;
        total += v;
        squares = fmaf(v, v, squares);
      }
      total = sum_of_groups(total, columns);
      squares = sum_of_groups(squares, columns);
      if (lane < columns.width) sum += 0.5f * (total * total - squares);
    }
    sum = warp_sum(sum);
    if (lane == 0) score[n] = bias[0] + sum;
  }
}

// One warp per sample: the sum of its rows.
__global__ void __launch_bounds__(kFmThreads)
    fm_sums_kernel(float* sums,     // (N, D)
                   const float* x,  // (N, F, D)
                   int64_t N,
                   int64_t F,
                   int64_t D) {
  const int lane = lane_of_thread();
  for (int64_t n = warp_of_grid(); n < N; n += warps_of_grid())
    for (int64_t begin = 0; begin < D; begin += kWarpSize) {
      const Columns columns(begin, D);
      const int group = lane / columns.width;
      const int64_t column = begin + lane % columns.width;
      float total = 0;
      for (int64_t f = group; group < columns.groups && f < F;
           f += columns.groups)
        total += x[(n * F + f) * D + column];
      total = sum_of_groups(total, columns);
      if (lane < columns.width) sums[n * D + column] = total;
    }
}

// Look-ups sorted by row, divided into chunks of equal length. Gradients of a
// row within one chunk are added there, one after the other. If they continue
// in the next chunk, each chunk's sum is kept, and the sums are added in chunk
// order. Results thus do not depend on scheduling.
constexpr int64_t kRunChunk = 64;

struct Lookups {
  const int32_t* keys;    // (count) rows, ascending; R: none
  const int32_t* places;  // n * F + f of each
  int64_t count, F, R, D;
};

// A lane's part of a row: its column's gradient and that of `first`.
struct RowSum {
  float embedding, first;
  __device__ __forceinline__ void add(const RowSum& other) {
    embedding += other.embedding;
    first += other.first;
  }
};

struct Upstream {
  const float *dx, *dscore, *x, *sums;
  int64_t padding;  // further columns of dx
  __device__ __forceinline__ RowSum of(int64_t place,
                                       int64_t column,
                                       const Lookups& lookups) const {
    // In 32 bits, where division is cheap: kMaxSortedKeys fits.
    const int64_t n =
        static_cast<uint32_t>(place) / static_cast<uint32_t>(lookups.F);
    const int64_t D = lookups.D;
    const float ds = dscore[n];
    const float others = sums[n * D + column] - x[place * D + column];
    return {dx[place * D + column + n * padding] + ds * others, ds};
  }
};

// Destinations of a lane's sums: the table, or a chunk that lacks part of a
// row.
struct RowSums {
  float *dembedding, *dfirst;
  RowSum *heads, *tails;  // (chunks, D): of the first row, of the last
  TouchedBlocks touched;

  __device__ __forceinline__ void finish(const RowSum& sum,
                                         int64_t row,
                                         int64_t column,
                                         int64_t D) const {
    float* const to = dembedding + row * D + column;
    *to += sum.embedding;
    mark_touched(touched, to);
    if (column != 0) return;
    dfirst[row] += sum.first;
    mark_touched(touched, dfirst + row);
  }
};

// A group of `width` lanes takes a chunk.
__global__ void __launch_bounds__(kFmThreads)
    reduce_chunks_kernel(RowSums to,
                         Upstream upstream,
                         Lookups lookups,
                         Columns columns) {
  const int lane = lane_of_thread();
  const int group = lane / columns.width;
  if (group >= columns.groups) return;
  const int64_t column = columns.begin + lane % columns.width;
  const int64_t D = lookups.D, chunks = ceil_div(lookups.count, kRunChunk);
  for (int64_t chunk = warp_of_grid() * columns.groups + group; chunk < chunks;
       chunk += warps_of_grid() * columns.groups) {
    const int64_t begin = chunk * kRunChunk;
    const int64_t end = lesser(begin + kRunChunk, lookups.count);
    bool is_head = begin > 0 && lookups.keys[begin - 1] == lookups.keys[begin];
    RowSum sum{0, 0};
    int32_t row = lookups.keys[begin];
    for (int64_t i = begin; i < end && row < lookups.R; ++i) {
      sum.add(upstream.of(lookups.places[i], column, lookups));
      const int32_t next =
          i + 1 < lookups.count ? lookups.keys[i + 1] : INT32_MAX;
      if (next == row && i + 1 < end) continue;
      if (is_head)
        to.heads[chunk * D + column] = sum;
      else if (next == row)
        to.tails[chunk * D + column] = sum;
      else
        to.finish(sum, row, column, D);
      is_head = false;
      sum = {0, 0};
      row = next;
    }
  }
}

// Returns the first chunk from `begin` on that does not start with `row`; all
// before it do.
__device__ __forceinline__ int64_t end_of_run(const Lookups& lookups,
                                              int32_t row,
                                              int64_t begin,
                                              int64_t chunks) {
  int64_t end = chunks;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (lookups.keys[middle * kRunChunk] == row)
      begin = middle + 1;
    else
      end = middle;
  }
  return end;
}

// A group takes a chunk: if a row begins there and continues, adds all of it.
__global__ void __launch_bounds__(kFmThreads)
    add_runs_kernel(RowSums to, Lookups lookups, Columns columns) {
  const int lane = lane_of_thread();
  const int group = lane / columns.width;
  if (group >= columns.groups) return;
  const int64_t column = columns.begin + lane % columns.width;
  const int64_t D = lookups.D, chunks = ceil_div(lookups.count, kRunChunk);
  for (int64_t chunk = warp_of_grid() * columns.groups + group;
       chunk + 1 < chunks; chunk += warps_of_grid() * columns.groups) {
    const int64_t begin = chunk * kRunChunk, next = begin + kRunChunk;
    const int32_t row = lookups.keys[next];
    const bool goes_on = lookups.keys[next - 1] == row && row < lookups.R;
    const bool is_whole = begin > 0 && lookups.keys[begin - 1] == row;
    if (!goes_on || is_whole) continue;
    const int64_t end = end_of_run(lookups, row, chunk + 1, chunks);
    RowSum sum = to.tails[chunk * D + column];
    for (int64_t other = chunk + 1; other < end; ++other)
      sum.add(to.heads[other * D + column]);
    to.finish(sum, row, column, D);
  }
}

// Runs as one block.
__global__ void __launch_bounds__(kFmThreads)
    add_bias_kernel(float* dbias, const float* dscore, int64_t N) {
  double sum = 0;
  for (int64_t n = threadIdx.x; n < N; n += blockDim.x)
    sum += static_cast<double>(dscore[n]);
  sum = block_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) dbias[0] += static_cast<float>(sum);
}

void interaction_forward(Context& context,
                         Tensor x,
                         Tensor score,
                         ConstTensor rows,
                         ConstTensor embedding,
                         ConstTensor first,
                         ConstTensor bias) {
  const int64_t N = rows.shape[0];
  launch(fm_forward_kernel, dim3(grid_for(N, kFmWarps)), dim3(kFmThreads), 0,
         context.stream(), x.f32(), score.f32(),
         static_cast<const int32_t*>(rows.data), embedding.f32(), first.f32(),
         bias.f32(), N, rows.shape[1], embedding.shape[0], embedding.shape[1]);
}

void interaction_backward(Context& context,
                          Tensor dembedding,
                          Tensor dfirst,
                          Tensor dbias,
                          ConstTensor dx,
                          ConstTensor dscore,
                          ConstTensor rows,
                          ConstTensor x,
                          const TouchedBlocks& touched) {
  const int64_t N = rows.shape[0], F = rows.shape[1];
  const int64_t R = dembedding.shape[0], D = dembedding.shape[1];
  Stream& stream = context.stream();
  static_assert(kMostLookupsOnGpu <= kMaxSortedKeys);
  const SortedKeys sorted =
      sort_by_key(context, static_cast<const int32_t*>(rows.data), N * F, R);
  const Lookups lookups{sorted.keys, sorted.places, N * F, F, R, D};
  const int64_t chunks = ceil_div(N * F, kRunChunk);
  auto* sums =
      static_cast<float*>(context.scratch(N * D * int64_t{sizeof(float)}, 0));
  const auto partial = [&](int index) {
    return static_cast<RowSum*>(
        context.scratch(chunks * D * int64_t{sizeof(RowSum)}, index));
  };
  const RowSums to{dembedding.f32(), dfirst.f32(), partial(1), partial(2),
                   touched};
  launch(fm_sums_kernel, dim3(grid_for(N, kFmWarps)), dim3(kFmThreads), 0,
         stream, sums, x.f32(), N, F, D);
  const Upstream upstream{dx.f32(), dscore.f32(), x.f32(), sums,
                          dx.shape[1] - x.shape[1]};
  for (int64_t begin = 0; begin < D; begin += kWarpSize) {
    const Columns columns(begin, D);
    const dim3 grid(grid_for(chunks, kFmWarps * columns.groups));
    launch(reduce_chunks_kernel, grid, dim3(kFmThreads), 0, stream, to,
           upstream, lookups, columns);
    launch(add_runs_kernel, grid, dim3(kFmThreads), 0, stream, to, lookups,
           columns);
  }
  launch(add_bias_kernel, dim3(1), dim3(kFmThreads),
         kFmWarps * int64_t{sizeof(double)}, stream, dbias.f32(), dscore.f32(),
         N);
}

}  // namespace syncopate::cuda
