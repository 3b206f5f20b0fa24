// Building blocks of norm.cu: the distribution of rows and channels over a
// grid, moments and sums of some rows, totals over chunks of rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"

namespace syncopate::cuda {

// A block is `lanes` rows of `columns` packs each; surplus threads idle.
// blockIdx.x counts groups of columns.
struct NormView {
  int64_t rows, C, packs;
  int columns, lanes;
};

// Two numbers of one channel, read and written together.
struct alignas(8) NormPair {
  float first, second;
};

// Chunks of `chunk_rows` rows; the last one may be shorter.
struct NormChunks {
  int64_t rows, C, chunk_rows;
  __host__ __device__ int64_t count() const {
    return (rows + chunk_rows - 1) / chunk_rows;
  }
};

// Two sums over all chunks of one channel.
struct NormTotals {
  double first, second;
};

inline constexpr int kNormThreads = 256;
// Adjacent packs: 512 contiguous bytes of a row.
inline constexpr int kMaxColumns = 32;
// Rows that a thread has in flight: at 16 bytes each, they amount to the 25 KB
// of outstanding reads that a multiprocessor of an H200 needs at any time.
inline constexpr int kRowsOfOne = 8;    // when reading one tensor
inline constexpr int kRowsOfThree = 4;  // when reading two or more
// Three blocks for each of the 132 multiprocessors of an H200 in reductions,
// whose chunks must be combined afterwards, and nine where there is nothing to
// combine. Most kernels have three resident at a time; backward of bf16 with
// more than 80 registers a thread has two (up to 115 registers).
inline constexpr int64_t kReductionBlocks = 396, kApplicationBlocks = 1188;

struct NormPlace {
  int column, lane;
  int64_t channel;  // the pack's first
  bool is_inside;
};
template <int V>
__device__ __forceinline__ NormPlace place_in(const NormView& view) {
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % view.columns, lane = thread / view.columns;
  const int64_t pack = int64_t{blockIdx.x} * view.columns + column;
  return {column, lane, pack * V, lane < view.lanes && pack < view.packs};
}

// Loads V channels, in packs if the address allows.
template <int V>
__device__ __forceinline__ void load_channels(float (&to)[V],
                                              const float* from) {
  if constexpr (V % 4 == 0) {
    if (is_pack_aligned(from)) {
      for (int quad = 0; quad < V; quad += 4) {
        const auto pack = Pack<float>::load(from + quad);
        for (int index = 0; index < 4; ++index)
          to[quad + index] = pack.elem[index];
      }
      return;
    }
  }
  for (int index = 0; index < V; ++index) to[index] = from[index];
}

// Calls body(rows, at) until all rows of [begin, end) that belong to this lane
// have been seen: kRows of them `stride` elements apart, or one.
template <int kRows, typename Body>
__device__ __forceinline__ void for_rows(const NormView& view,
                                         const NormPlace& place,
                                         int64_t begin,
                                         int64_t end,
                                         int64_t step,
                                         const Body& body) {
  const int64_t last = int64_t{kRows - 1} * view.lanes;
  for (; begin < end; begin += step) {
    const int64_t row = begin + place.lane;
    if (row + last < end) {
      body(std::integral_constant<int, kRows>(), row * view.C + place.channel);
      continue;
    }
    for (int64_t one = row; one < end; one += view.lanes)
      body(std::integral_constant<int, 1>(), one * view.C + place.channel);
  }
}

// Count, mean and sum of squared deviations of V channels.
template <int V>
struct NormMoments {
  float count, mean[V], squares[V];
};

// Chan, Golub & LeVeque 1979: with d = mean_b - mean_a,
//   mean = mean_a + d n_b / n     M2 = M2_a + M2_b + d^2 n_a n_b / n
// No square of a mean appears, so nothing cancels.
struct MergeMoments {
  template <int V>
  __device__ __forceinline__ NormMoments<V> operator()(
      NormMoments<V> a,
      const NormMoments<V>& b) const {
    if (b.count == 0) return a;
    const float share = b.count / (a.count + b.count);
    const float weight = a.count * share;
    for (int index = 0; index < V; ++index) {
      const float distance = b.mean[index] - a.mean[index];
      a.mean[index] += distance * share;
      a.squares[index] += b.squares[index] + distance * distance * weight;
    }
    a.count += b.count;
    return a;
  }
};

// Moments of kRows values per channel, around their own mean.
template <int kRows, typename T, int V>
__device__ __forceinline__ NormMoments<V> moments_of(
    const Pack<T, V> (&packs)[kRows]) {
  NormMoments<V> moments;
  moments.count = kRows;
  for (int index = 0; index < V; ++index) {
    float sum = 0, squares = 0;
    for (int row = 0; row < kRows; ++row) sum += packs[row].get(index);
    const float mean = sum * (1.0f / kRows);
    for (int row = 0; row < kRows; ++row) {
      const float deviation = packs[row].get(index) - mean;
      squares += deviation * deviation;
    }
    moments.mean[index] = mean;
    moments.squares[index] = squares;
  }
  return moments;
}

template <int V>
struct NormSums {
  float first[V], second[V];
  float unused;  // an odd number of words avoids bank conflicts
};
struct AddSums {
  template <int V>
  __device__ __forceinline__ NormSums<V> operator()(
      NormSums<V> a,
      const NormSums<V>& b) const {
    for (int index = 0; index < V; ++index) {
      a.first[index] += b.first[index];
      a.second[index] += b.second[index];
    }
    return a;
  }
};

// y before the residual and the activation. One function, so that the backward
// pass finds the sign that the forward pass saw.
__device__ __forceinline__ float normalised(float deviation,
                                            float factor,
                                            float shift) {
  return fmaf(deviation, factor, shift);
}

// What tells where the activation was positive: nothing needs to, y, bits of y
// (packs of eight channels only), or x.
enum class NormMask : uint8_t { kNone, kOutput, kBits, kInput };

template <typename T>
struct NormSources {
  const T *dy, *dy2, *x, *y;  // null: not read
  const uint8_t* bits;        // likewise
};

// Of a thread's channels, with y = factor (x - center) + shift; the last two
// for NormMask::kInput only.
template <int V>
struct NormConstants {
  float center[V], factor[V], shift[V];
};

// (C) each, and what a thread needs of them.
struct NormChannels {
  const float *mean, *rstd, *gamma, *beta;
};
template <NormMask kMask, int V>
__device__ __forceinline__ void load_constants(NormConstants<V>& k,
                                               const NormChannels& channels,
                                               int64_t channel) {
  load_channels(k.center, channels.mean + channel);
  if constexpr (kMask != NormMask::kInput) return;
  load_channels(k.factor, channels.rstd + channel);
  load_channels(k.shift, channels.gamma + channel);
  for (int index = 0; index < V; ++index) k.factor[index] *= k.shift[index];
  load_channels(k.shift, channels.beta + channel);
}

// Rows of dy, x and, if needed, dy2 and y, all loaded before any is used.
template <typename T, int V, NormMask kMask, bool kHasSum, int kRows>
struct NormUpstream {
  static constexpr bool kReadsY = kMask == NormMask::kOutput;
  static constexpr bool kReadsBits = kMask == NormMask::kBits;
  static_assert(!kReadsBits || V == 8);
  Pack<T, V> dy[kRows], x[kRows], dy2[kHasSum ? kRows : 1],
      y[kReadsY ? kRows : 1];
  unsigned bits[kReadsBits ? kRows : 1];

  __device__ __forceinline__ void load(const NormSources<T>& from,
                                       int64_t at,
                                       int64_t stride) {
    for (int row = 0; row < kRows; ++row, at += stride) {
      dy[row] = Pack<T, V>::load(from.dy + at);
      x[row] = Pack<T, V>::load(from.x + at);
      if constexpr (kHasSum) dy2[row] = Pack<T, V>::load(from.dy2 + at);
      if constexpr (kReadsY) y[row] = Pack<T, V>::load(from.y + at);
      if constexpr (kReadsBits) bits[row] = from.bits[at / V];
    }
  }
  // g = dy [+ dy2, rounded to T] where the activation was positive, else 0.
  __device__ __forceinline__ float gradient(int row,
                                            int index,
                                            const NormConstants<V>& k) const {
    float value = dy[row].get(index);
    if constexpr (kHasSum)
      value = to_f32(from_f32<T>(value + dy2[row].get(index)));
    if constexpr (kReadsY) return y[row].get(index) > 0 ? value : 0;
    if constexpr (kReadsBits) return (bits[row] >> index & 1) != 0 ? value : 0;
    if constexpr (kMask == NormMask::kInput)
      return normalised(x[row].get(index) - k.center[index], k.factor[index],
                        k.shift[index]) > 0
                 ? value
                 : 0;
    return value;
  }
};

// For kernels that combine chunks: 8 adjacent channels, whose partials are 64
// contiguous bytes, and 32 lanes of chunks.
inline constexpr int kCombineChannels = 8;
inline constexpr int kCombineLanes = kNormThreads / kCombineChannels;

struct CombinePlace {
  int64_t channel;
  int lane;
};
__device__ __forceinline__ CombinePlace combine_place() {
  const int thread = static_cast<int>(threadIdx.x);
  return {int64_t{blockIdx.x} * kCombineChannels + thread % kCombineChannels,
          thread / kCombineChannels};
}

struct AddTotals {
  __device__ __forceinline__ NormTotals operator()(NormTotals a,
                                                   NormTotals b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

// Returns sum of term(chunk) to lane 0 of each channel: lane l adds chunks l, l
// + 32, ..., and lanes are added in a fixed order.
template <typename Term>
__device__ __forceinline__ NormTotals total_of_chunks(const CombinePlace& place,
                                                      const NormChunks& chunks,
                                                      const Term& term) {
  NormTotals totals = {0, 0};
  if (place.channel < chunks.C)
    for (int64_t chunk = place.lane; chunk < chunks.count();
         chunk += kCombineLanes)
      totals = AddTotals()(totals, term(chunk));
  return reduce_columns(totals, shared_memory<NormTotals>(), kCombineLanes,
                        kCombineChannels, AddTotals());
}

}  // namespace syncopate::cuda
