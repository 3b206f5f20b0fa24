#include "ops/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

// A block reduces chunks of a fixed size, and one block then the chunks, so
// results depend neither on the grid nor on the alignment of the range.
constexpr int kReduceThreads = 256;
constexpr int kLoadsPerThread = 8;  // independent, for enough bytes in flight
constexpr int kLoadElems = 4;
constexpr int64_t kChunk =
    int64_t{kReduceThreads} * kLoadElems * kLoadsPerThread;
constexpr int64_t kReduceShared = kReduceThreads / kWarpSize * 8;  // one T per
                                                                   // warp
constexpr int64_t kNoIndex = std::numeric_limits<int64_t>::max();

struct Min {
  __device__ __forceinline__ int64_t operator()(int64_t a, int64_t b) const {
    return a < b ? a : b;
  }
};

// Calls visit(first, load) for this thread's elements of `chunk`, four at a
// time from element `first`: load(range) returns those of a range, with 0
// beyond its end. kIsWhole: nothing is beyond the end, and packs are aligned.
template <bool kIsWhole, typename Visit>
__device__ __forceinline__ void visit_chunk(int64_t chunk,
                                            int64_t n,
                                            const Visit& visit) {
  for (int index = 0; index < kLoadsPerThread; ++index) {
    const int64_t first =
        chunk * kChunk +
        (index * kReduceThreads + int64_t{threadIdx.x}) * kLoadElems;
    visit(first, [&](const float* range) {
      if constexpr (kIsWhole) return Pack<float>::load(range + first);
      Pack<float> values{};
      for (int e = 0; e < kLoadElems; ++e)
        if (first + e < n) values.elem[e] = range[first + e];
      return values;
    });
  }
}

// `marks`: of the blocks of x (TouchedBlocks), or null. The lanes of a warp are
// in one block at a time.
template <bool kIsWhole>
__device__ __forceinline__ double dot_in_chunk(const float* x,
                                               const float* y,
                                               const uint8_t* marks,
                                               int64_t chunk,
                                               int64_t n) {
  double sum = 0;
  visit_chunk<kIsWhole>(chunk, n, [&](int64_t first, auto load) {
    if (marks != nullptr &&
        (first >= n || marks[first / TouchedBlocks::kElems] == 0))
      return;
    const Pack<float> xs = load(x), ys = load(y);
    for (int e = 0; e < kLoadElems; ++e)
      sum += static_cast<double>(xs.elem[e]) * static_cast<double>(ys.elem[e]);
  });
  return sum;
}

__global__ void __launch_bounds__(kReduceThreads)
    dot_kernel(double* partial,  // per chunk
               const float* x,
               const float* y,
               const uint8_t* marks,
               int64_t n,
               bool is_aligned) {
  for (int64_t chunk = blockIdx.x; chunk * kChunk < n; chunk += gridDim.x) {
    const bool is_whole = is_aligned && (chunk + 1) * kChunk <= n;
    const double sum = is_whole ? dot_in_chunk<true>(x, y, marks, chunk, n)
                                : dot_in_chunk<false>(x, y, marks, chunk, n);
    const double total = block_sum(sum, shared_memory<double>());
    if (threadIdx.x == 0) partial[chunk] = total;
  }
}

template <bool kIsWhole>
__device__ __forceinline__ int64_t first_in_chunk(const float* x,
                                                  int64_t chunk,
                                                  int64_t n) {
  int64_t found = kNoIndex;
  visit_chunk<kIsWhole>(chunk, n, [&](int64_t first, auto load) {
    const Pack<float> xs = load(x);
    for (int e = 0; e < kLoadElems; ++e)
      if (!std::isfinite(xs.elem[e])) found = Min()(found, first + e);
  });
  return found;
}

__global__ void __launch_bounds__(kReduceThreads)
    first_nonfinite_kernel(int64_t* first_of,  // per chunk
                           const float* x,
                           int64_t n,
                           bool is_aligned) {
  for (int64_t chunk = blockIdx.x; chunk * kChunk < n; chunk += gridDim.x) {
    const bool is_whole = is_aligned && (chunk + 1) * kChunk <= n;
    const int64_t found = is_whole ? first_in_chunk<true>(x, chunk, n)
                                   : first_in_chunk<false>(x, chunk, n);
    const int64_t first = block_reduce(found, shared_memory<int64_t>(), Min());
    if (threadIdx.x == 0) first_of[chunk] = first;
  }
}

__device__ __forceinline__ uint64_t scrambled(float value, int64_t place) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint64_t word = static_cast<uint64_t>(place) << 32 | bits;
  word ^= word >> 32;
  word *= kDigestFactor;
  word ^= word >> 29;
  word *= kDigestFactor;
  return word ^ (word >> 32);
}

__global__ void __launch_bounds__(kReduceThreads)
    digest_kernel(uint64_t* partial,  // per chunk
                  const float* x,
                  int64_t n,
                  bool is_aligned) {
  for (int64_t chunk = blockIdx.x; chunk * kChunk < n; chunk += gridDim.x) {
    uint64_t sum = 0;
    const auto add = [&](int64_t first, auto load) {
      const Pack<float> values = load(x);
      for (int e = 0; e < kLoadElems; ++e)
        if (first + e < n) sum += scrambled(values.elem[e], first + e);
    };
    if (is_aligned && (chunk + 1) * kChunk <= n)
      visit_chunk<true>(chunk, n, add);
    else
      visit_chunk<false>(chunk, n, add);
    const uint64_t total = block_sum(sum, shared_memory<uint64_t>());
    if (threadIdx.x == 0) partial[chunk] = total;
  }
}

// Combines all chunks in one block, each thread taking successive ones. Every
// thread gets the result.
template <typename T, typename Combine>
__device__ __forceinline__ T combine_chunks(const T* of_chunk,
                                            int64_t chunks,
                                            T start,
                                            const Combine& combine) {
  const int64_t share = ceil_div(chunks, blockDim.x);
  const int64_t begin = share * threadIdx.x;
  T value = start;
  for (int64_t i = begin; i < begin + share && i < chunks; ++i)
    value = combine(value, of_chunk[i]);
  return block_reduce(value, shared_memory<T>(), combine);
}

__global__ void __launch_bounds__(kReduceThreads)
    combine_sums_kernel(double* result, const double* partial, int64_t chunks) {
  const double sum = combine_chunks(partial, chunks, 0.0, Sum());
  if (threadIdx.x == 0) *result = sum;
}

__global__ void __launch_bounds__(kReduceThreads)
    combine_digests_kernel(uint64_t* result,
                           const uint64_t* partial,
                           int64_t chunks) {
  const uint64_t sum = combine_chunks(partial, chunks, uint64_t{0}, Sum());
  if (threadIdx.x == 0) *result = sum;
}

__global__ void __launch_bounds__(kReduceThreads)
    combine_indices_kernel(int64_t* result,
                           const int64_t* first_of,
                           int64_t chunks) {
  const int64_t first = combine_chunks(first_of, chunks, kNoIndex, Min());
  if (threadIdx.x == 0) *result = first == kNoIndex ? -1 : first;
}

__global__ void __launch_bounds__(kReduceThreads)
    clip_factor_kernel(float* factor,
                       const double* partial,
                       int64_t chunks,
                       double scale,
                       double limit) {
  const double squares = combine_chunks(partial, chunks, 0.0, Sum());
  if (threadIdx.x != 0) return;
  const auto wanted =
      static_cast<float>(limit / (scale * sqrt(squares) + 1e-6));
  *factor = wanted > 1 ? 1.0f : wanted;  // propagates NaN
}

namespace {

// Page-locked memory for the number that an op returns.
struct HostResult {
  HostBuffer memory;
};

// Returns `result` from the device, after all work submitted so far.
template <typename T>
T fetch(Context& context, const T* result) {
  HostBuffer& memory = context.cache<HostResult>().memory;
  if (memory.bytes() == 0) memory = HostBuffer(context.device(), sizeof(T));
  static_assert(sizeof(T) == 8, "one size for all");
  context.device().copy(memory.as<T>(), result, sizeof(T), context.stream());
  context.stream().synchronize();
  return *memory.as<T>();
}

// Scratch for one value per chunk, preceded by the result.
template <typename T>
T* result_scratch(Context& context, int64_t chunks) {
  return static_cast<T*>(context.scratch((1 + chunks) * int64_t{sizeof(T)}));
}

void start_dot(Context& context,
               double* partial,
               std::span<const float> x,
               std::span<const float> y,
               const TouchedBlocks& touched = {}) {
  const bool is_aligned =
      is_pack_aligned(x.data()) && is_pack_aligned(y.data());
  launch(dot_kernel, dim3(grid_for(std::ssize(x), kChunk)),
         dim3(kReduceThreads), kReduceShared, context.stream(), partial,
         x.data(), y.data(), touched.marks, std::ssize(x), is_aligned);
}

}  // namespace

double dot(Context& context,
           std::span<const float> x,
           std::span<const float> y) {
  if (x.empty()) return 0;
  const int64_t chunks = ceil_div(std::ssize(x), kChunk);
  auto* result = result_scratch<double>(context, chunks);
  start_dot(context, result + 1, x, y);
  launch(combine_sums_kernel, dim3(1), dim3(kReduceThreads), kReduceShared,
         context.stream(), result, result + 1, chunks);
  return fetch(context, result);
}

int64_t first_nonfinite(Context& context, std::span<const float> x) {
  if (x.empty()) return -1;
  const int64_t chunks = ceil_div(std::ssize(x), kChunk);
  auto* result = result_scratch<int64_t>(context, chunks);
  launch(first_nonfinite_kernel, dim3(grid_for(std::ssize(x), kChunk)),
         dim3(kReduceThreads), kReduceShared, context.stream(), result + 1,
         x.data(), std::ssize(x), is_pack_aligned(x.data()));
  launch(combine_indices_kernel, dim3(1), dim3(kReduceThreads), kReduceShared,
         context.stream(), result, result + 1, chunks);
  return fetch(context, result);
}

uint64_t digest(Context& context, std::span<const float> x) {
  if (x.empty()) return 0;
  const int64_t chunks = ceil_div(std::ssize(x), kChunk);
  auto* result = result_scratch<uint64_t>(context, chunks);
  launch(digest_kernel, dim3(grid_for(std::ssize(x), kChunk)),
         dim3(kReduceThreads), kReduceShared, context.stream(), result + 1,
         x.data(), std::ssize(x), is_pack_aligned(x.data()));
  launch(combine_digests_kernel, dim3(1), dim3(kReduceThreads), kReduceShared,
         context.stream(), result, result + 1, chunks);
  return fetch(context, result);
}

void clip_factor(Context& context,
                 float* factor,
                 std::span<const float> gradient,
                 double scale,
                 double limit,
                 const TouchedBlocks& touched) {
  const int64_t chunks = ceil_div(std::ssize(gradient), kChunk);
  auto* partial = result_scratch<double>(context, chunks);
  start_dot(context, partial, gradient, gradient, touched);
  launch(clip_factor_kernel, dim3(1), dim3(kReduceThreads), kReduceShared,
         context.stream(), factor, partial, chunks, scale, limit);
}

}  // namespace syncopate::cuda
