#include "cuda/sort.h"

#include <utility>

#include <cuda/atomic.cuh>

#include "cuda/pack.cuh"
#include "cuda/scan.cuh"

// A radix sort from the lowest digit up. A pass counts the digits per chunk,
// computes prefix sums over the chunks, and moves the elements in order.
namespace syncopate::cuda {

constexpr int kSortThreads = 256;
constexpr int kSortWarps = kSortThreads / kWarpSize;
constexpr int kDigitBits = 8;
constexpr int kDigitValues = 1 << kDigitBits;
static_assert(kDigitValues == kSortThreads);  // one thread per value
constexpr int kRowsOfWarp = 8;
constexpr int kSortChunk = kSortThreads * kRowsOfWarp;

// Input of one pass; the first has no places yet.
struct SortInput {
  const int32_t *keys, *places;
  int64_t n;
  uint32_t R;
  int shift;
  __device__ __forceinline__ uint32_t key(int64_t i) const {
    return lesser(static_cast<uint32_t>(keys[i]), R);  // negative: above R
  }
  __device__ __forceinline__ int32_t place(int64_t i) const {
    return places != nullptr ? places[i] : static_cast<int32_t>(i);
  }
  __device__ __forceinline__ int digit(uint32_t key) const {
    return static_cast<int>(key >> shift) % kDigitValues;
  }
  __host__ __device__ int64_t chunks() const { return ceil_div(n, kSortChunk); }
};

// counts[value * chunks + chunk] = number of the chunk's elements with this
// digit.
__global__ void __launch_bounds__(kSortThreads)
    sort_count_kernel(uint32_t* counts, SortInput input) {
  auto* of_chunk = shared_memory<uint32_t>();
  for (int64_t chunk = blockIdx.x; chunk < input.chunks(); chunk += gridDim.x) {
    of_chunk[threadIdx.x] = 0;
    __syncthreads();
    const int64_t begin = chunk * kSortChunk;
    const int64_t end = lesser(begin + kSortChunk, input.n);
    for (int64_t i = begin + threadIdx.x; i < end; i += kSortThreads)
      add_atomically(of_chunk + input.digit(input.key(i)), 1);
    __syncthreads();
    counts[threadIdx.x * input.chunks() + chunk] = of_chunk[threadIdx.x];
    __syncthreads();
  }
}

// One block per value of the digit: turns its counts into prefix sums over the
// chunks.
__global__ void __launch_bounds__(kSortThreads)
    sort_scan_kernel(uint32_t* counts,
                     uint32_t* totals,  // (kDigitValues)
                     int64_t chunks) {
  uint32_t* of_value = counts + blockIdx.x * chunks;
  const int64_t share = ceil_div(chunks, kSortThreads);
  const int64_t begin = share * threadIdx.x;
  const int64_t end = lesser(begin + share, chunks);
  uint32_t own = 0;
  for (int64_t chunk = begin; chunk < end; ++chunk) own += of_value[chunk];
  uint32_t before = block_scan(own, shared_memory<uint32_t>());
  if (threadIdx.x == kSortThreads - 1) totals[blockIdx.x] = before + own;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const uint32_t count = of_value[chunk];
    of_value[chunk] = before;
    before += count;
  }
}

// Returns the lanes whose element has this lane's digit. All 32 must call.
__device__ __forceinline__ uint32_t lanes_like(int digit, bool is_there) {
  uint32_t lanes = __ballot_sync(kAllLanes, is_there);
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool is_set = (digit >> bit) % 2 != 0;
    const uint32_t set = __ballot_sync(kAllLanes, is_set);
    lanes &= is_set ? set : ~set;
  }
  return lanes;
}

// A warp takes successive elements of the chunk, row by row.
__global__ void __launch_bounds__(kSortThreads)
    sort_move_kernel(int32_t* keys,
                     int32_t* places,
                     const uint32_t* counts,
                     const uint32_t* totals,
                     SortInput input) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  // Destination of the next element, per warp and value of the digit.
  auto* next = shared_memory<uint32_t>();
  uint32_t* own = next + warp * kDigitValues;
  auto* of_warps = next + kSortWarps * kDigitValues;
  const uint32_t smaller = block_scan(totals[threadIdx.x], of_warps);
  for (int64_t chunk = blockIdx.x; chunk < input.chunks(); chunk += gridDim.x) {
    for (int other = 0; other < kSortWarps; ++other)
      next[other * kDigitValues + static_cast<int>(threadIdx.x)] = 0;
    __syncthreads();
    const int64_t first =
        chunk * kSortChunk + int64_t{warp} * kRowsOfWarp * kWarpSize + lane;
    for (int row = 0; row < kRowsOfWarp; ++row) {
      const int64_t i = first + row * kWarpSize;
      if (i < input.n) add_atomically(own + input.digit(input.key(i)), 1);
    }
    __syncthreads();
    uint32_t place = smaller + counts[threadIdx.x * input.chunks() + chunk];
    for (int other = 0; other < kSortWarps; ++other) {
      uint32_t& of_warp =
          next[other * kDigitValues + static_cast<int>(threadIdx.x)];
      place += std::exchange(of_warp, place);
    }
    __syncthreads();
    for (int row = 0; row < kRowsOfWarp; ++row) {
      const int64_t i = first + row * kWarpSize;
      const bool is_there = i < input.n;
      const uint32_t key = is_there ? input.key(i) : 0;
      const int digit = input.digit(key);
      const uint32_t alike = lanes_like(digit, is_there);
      uint32_t to = 0;
      if (is_there) {
        to = own[digit] +
             static_cast<uint32_t>(count_bits(alike & ((1u << lane) - 1)));
        keys[to] = static_cast<int32_t>(key);
        places[to] = input.place(i);
      }
      __syncwarp();
      if (is_there && alike >> lane == 1) own[digit] = to + 1;  // the last one
      __syncwarp();
    }
    __syncthreads();
  }
}

SortedKeys sort_by_key(Context& context,
                       const int32_t* keys,
                       int64_t n,
                       int64_t R) {
  CHECK_MSG(n >= 0 && n <= kMaxSortedKeys, "{} keys", n);
  CHECK_MSG(R >= 0 && R < int64_t{1} << 31, "keys below {}", R);
  if (n == 0) return {nullptr, nullptr};
  SortInput input{.keys = keys,
                  .places = nullptr,
                  .n = n,
                  .R = static_cast<uint32_t>(R),
                  .shift = 0};
  const int64_t chunks = input.chunks();
  auto* memory = static_cast<int32_t*>(context.scratch(
      (4 * n + (chunks + 1) * kDigitValues) * int64_t{sizeof(int32_t)},
      kSortScratch));
  int32_t *to = memory, *other = memory + 2 * n;
  auto* counts = reinterpret_cast<uint32_t*>(memory + 4 * n);
  uint32_t* totals = counts + chunks * kDigitValues;
  Stream& stream = context.stream();
  const dim3 grid(grid_for(chunks, 1)), threads(kSortThreads);
  constexpr int64_t kWord = sizeof(uint32_t);
  for (; input.R >> input.shift != 0 || input.places == nullptr;
       input.shift += kDigitBits) {
    launch(sort_count_kernel, grid, threads, kDigitValues * kWord, stream,
           counts, input);
    launch(sort_scan_kernel, dim3(kDigitValues), threads, kSortWarps * kWord,
           stream, counts, totals, chunks);
    launch(sort_move_kernel, grid, threads,
           (kSortWarps * kDigitValues + kSortWarps) * kWord, stream, to, to + n,
           counts, totals, input);
    input.keys = to;
    input.places = to + n;
    std::swap(to, other);
    if (input.shift + kDigitBits >= 32) break;  // a shift by 32 is undefined
  }
  return {input.keys, input.places};
}

}  // namespace syncopate::cuda
