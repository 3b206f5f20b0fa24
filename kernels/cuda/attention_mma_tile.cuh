// Tiles of attention in bf16 and their products on tensor cores.
//
// A block has 64 rows, 16 for each of its 4 warps, and processes tiles of
// kOthers rows of the other side. A thread holds rows group and group + 8 of a
// warp's scores and outputs, as C fragments (cuda/mma.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/attention_place.cuh"
#include "cuda/mma.cuh"
#include "cuda/pack.cuh"
#include "cuda/platform.h"
#include "cuda/reduce.cuh"

namespace syncopate::cuda {

inline constexpr int kMmaThreads = 128;
inline constexpr int kMmaRows = 64;  // of a block
inline constexpr int kWarpRows = 16;
inline constexpr float kLog2E = 1.44269504f;

// Up to kWidth >= D elements of a head.
template <int kWidthOf, int kOthersOf>
struct MmaTile {
  static constexpr int kWidth = kWidthOf, kOthers = kOthersOf;
  // An odd number of 16 bytes, so that the eight rows of a matrix lie in
  // different banks.
  static constexpr int kStride = kWidth + 8;
  static constexpr int kRowElems = kMmaRows * kStride;
  static constexpr int kOtherElems = kOthers * kStride;
  // Bytes of `own` tiles of a block's rows and four tiles of the other side's.
  static constexpr int64_t bytes(int own) {
    return (own * kRowElems + 4 * kOtherElems) * int64_t{sizeof(Bf16)};
  }
};

// C fragments of a warp: its 16 rows of scores, and of outputs.
template <typename Tile>
struct MmaScores {
  static constexpr int kCount = Tile::kOthers / 8;
  float at[kCount][4];
};
template <typename Tile>
struct MmaOutputs {
  static constexpr int kCount = Tile::kWidth / 8;
  float at[kCount][4];
};

__device__ __forceinline__ int lane_of_warp() {
  return static_cast<int>(threadIdx.x) % kWarpSize;
}
__device__ __forceinline__ int lane_group() {
  return lane_of_warp() / 4;
}
// First of the block's rows that belong to the warp.
__device__ __forceinline__ int warp_row() {
  return static_cast<int>(threadIdx.x) / kWarpSize * kWarpRows;
}
// Column within 8 of a fragment's element `i`.
__device__ __forceinline__ int fragment_column(int i) {
  return lane_of_warp() % 4 * 2 + i % 2;
}

// Starts to copy (rows, D), whose rows are `stride` apart, to a tile of kRows
// rows; zero beyond the last row and beyond D. There is at least one row.
template <typename Tile, int kRows>
__device__ void copy_rows(Bf16* tile,
                          const Bf16* from,
                          int64_t stride,
                          int rows,
                          int D) {
  constexpr int kElems = kPackElems<Bf16>;
  constexpr int kPacks = Tile::kWidth / kElems;
  constexpr int kRowsAtOnce = kMmaThreads / kPacks;
  static_assert(kRows % kRowsAtOnce == 0);
  const int first = static_cast<int>(threadIdx.x) / kPacks;
  const int d = static_cast<int>(threadIdx.x) % kPacks * kElems;
  const Bf16* source = from + first * stride + d;
  tile += first * Tile::kStride + d;
  rows = d < D ? rows - first : 0;  // those of this thread
  for (int row = 0; row < kRows; row += kRowsAtOnce) {
    const bool is_in = row < rows;
    copy_async<16>(tile + row * Tile::kStride, is_in ? source : from, is_in);
    source += kRowsAtOnce * stride;
  }
}

// Two buffers alternate, each for two incoming tiles. Returns the one for the
// rows from `first`.
template <typename Tile>
__device__ __forceinline__ Bf16* buffer_of(Bf16* buffers, int first) {
  return buffers + first / Tile::kOthers % 2 * (2 * Tile::kOtherElems);
}

// Waits for the incoming tiles of the rows from `first`; then starts to copy
// the next ones, if there are any, by copy(row), to the buffer that every warp
// has finished with.
template <typename Tile, typename Copy>
__device__ __forceinline__ void await_others(int first,
                                             int length,
                                             const Copy& copy) {
  wait_for_copies<0>();
  __syncthreads();
  if (first + Tile::kOthers < length) copy(first + Tile::kOthers);
}

// The warp's rows of `a` times the rows of `b`: sums over D.
template <typename Tile>
__device__ __forceinline__ MmaScores<Tile> multiply_by_rows(const Bf16* a,
                                                            const Bf16* b) {
  using Scores = MmaScores<Tile>;
  const int lane = lane_of_warp();
  a += (warp_row() + lane % 16) * Tile::kStride + lane / 16 * 8;
  b += (lane / 16 * 8 + lane % 8) * Tile::kStride + lane / 8 % 2 * 8;
  Scores sum{};
  for (int d = 0; d < Tile::kWidth; d += 16) {
    uint32_t left[4];
    load_matrices(left, a + d);
    for (int n = 0; n < Scores::kCount; n += 2) {
      uint32_t right[4];
      load_matrices(right, b + n * 8 * Tile::kStride + d);
      mma(sum.at[n], left, right[0], right[1]);
      mma(sum.at[n + 1], left, right[2], right[3]);
    }
  }
  return sum;
}

// outputs += the warp's scores, rounded to bf16, times b (kOthers, kWidth). A
// C fragment of scores is half of an A fragment.
template <typename Tile>
__device__ __forceinline__ void add_weighted_rows(MmaOutputs<Tile>& outputs,
                                                  const MmaScores<Tile>& scores,
                                                  const Bf16* b) {
  const int lane = lane_of_warp();
  b += lane % 16 * Tile::kStride + lane / 16 * 8;
  for (int k = 0; k < MmaScores<Tile>::kCount; k += 2) {
    const float(&low)[4] = scores.at[k], (&high)[4] = scores.at[k + 1];
    const uint32_t left[4] = {
        pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]),
        pack_bf16(high[0], high[1]), pack_bf16(high[2], high[3])};
    for (int n = 0; n < MmaOutputs<Tile>::kCount; n += 2) {
      uint32_t right[4];
      load_transposed(right, b + k * 8 * Tile::kStride + n * 8);
      mma(outputs.at[n], left, right[0], right[1]);
      mma(outputs.at[n + 1], left, right[2], right[3]);
    }
  }
}

// to (rows, D) = the warp's outputs, times factor[h] in rows group + 8 h.
// `rows` counts from the block's first. `staging`: a tile of the block's rows;
// other warps must no longer use this warp's part of it.
template <typename Tile>
__device__ void store_rows(Bf16* to,
                           int64_t stride,
                           Bf16* staging,
                           const MmaOutputs<Tile>& outputs,
                           const float (&factor)[2],
                           int rows,
                           int D) {
  __syncwarp();
  for (int n = 0; n < MmaOutputs<Tile>::kCount; ++n)
    for (int h = 0; h < 2; ++h) {
      Pack<Bf16, 2> pair;
      for (int i = 0; i < 2; ++i)
        pair.set(i, outputs.at[n][2 * h + i] * factor[h]);
      pair.store(staging + (warp_row() + lane_group() + 8 * h) * Tile::kStride +
                 n * 8 + fragment_column(0));
    }
  __syncwarp();
  constexpr int kElems = kPackElems<Bf16>;
  constexpr int kPacks = Tile::kWidth / kElems;
  for (int i = lane_of_warp(); i < kWarpRows * kPacks; i += kWarpSize) {
    const int row = warp_row() + i / kPacks, d = i % kPacks * kElems;
    if (row < rows && d < D)
      Pack<Bf16>::load(staging + row * Tile::kStride + d)
          .store(to + row * stride + d);
  }
}

// The maximum over the four lanes that hold a row.
__device__ __forceinline__ float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}
__device__ __forceinline__ float row_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

// The row, counted from the block's first, for which a thread draws: see
// kept_in_query_rows().
__device__ __forceinline__ int drawn_row() {
  return warp_row() + lane_group() + lane_of_warp() % 2 * 8;
}

// Draws which of a thread's scores dropout keeps: bit n * 4 + i for element i
// of fragment n. Rows are queries, columns are keys from `key`. A draw covers
// four keys, of which two adjacent lanes hold two each: one of them draws row
// group for both, the other one row group + 8. `query`: the draws of
// drawn_row().
template <typename Tile>
__device__ __forceinline__ uint32_t
kept_in_query_rows(const ScoreDraws& draws,
                   const ScoreDraws::Query& query,
                   int key) {
  const int t = lane_of_warp() % 4, odd = t % 2;
  uint32_t own = 0;
  // Four at a time hide each other's latency and share the rounds' keys.
  SYNCOPATE_UNROLL(4)
  for (int n = 0; n < MmaScores<Tile>::kCount; ++n)
    own |= draws.four_keys(query, key + n * 8 + t / 2 * 4) << (4 * n);
  const uint32_t other = __shfl_xor_sync(kAllLanes, own, 1);
  constexpr uint32_t kTwoOfFour = 0x33333333;
  const uint32_t low = (odd != 0 ? other : own) >> (2 * odd) & kTwoOfFour;
  const uint32_t high = (odd != 0 ? own : other) >> (2 * odd) & kTwoOfFour;
  return low | high << 2;
}

__device__ __forceinline__ bool is_kept(uint32_t kept, int n, int i) {
  return (kept >> (n * 4 + i) & 1) != 0;
}

// Returns where forward keeps these words, one for each thread, for a tile of
// 64 queries and 64 keys.
__device__ __forceinline__ int64_t kept_place(const AttentionPlace& place,
                                              const AttentionSizes& sizes,
                                              int64_t query_tile,
                                              int64_t key_tile) {
  const int64_t head = place.n * sizes.heads + place.head;
  return ((head * sizes.tiles + query_tile) * sizes.tiles + key_tile) *
         kMmaThreads;
}

// The same bits for a thread whose rows are keys and whose columns are queries,
// from the words of the warps that had these queries as rows. With t, the place
// of the lane in its group:
//   query 16 p + 8 m + 2 t + c     was with lane 4 (2 t + c) + group / 2
//   and key 8 k + group            of warp p, as bit 4 k + 2 m + group % 2.
// This thread's keys have k = 2 warp + h, and their bits become
// 8 p + 4 h + 2 m + c.
template <typename Tile>
__device__ __forceinline__ uint32_t kept_in_key_rows(const uint32_t* words) {
  const int t = lane_of_warp() % 4, group = lane_group();
  const int shift = static_cast<int>(threadIdx.x) / kWarpSize * 8 + group % 2;
  constexpr uint32_t kOfTwoKeys = 0x55;
  uint32_t kept = 0;
  for (int p = 0; p < Tile::kOthers / kWarpRows; ++p)
    for (int c = 0; c < 2; ++c)
      kept |= (words[p * kWarpSize + (2 * t + c) * 4 + group / 2] >> shift &
               kOfTwoKeys)
              << (8 * p + c);
  return kept;
}

__device__ __forceinline__ bool is_kept_in_key_rows(uint32_t kept,
                                                    int n,
                                                    int i) {
  return (kept >> (n / 2 * 8 + i / 2 * 4 + n % 2 * 2 + i % 2) & 1) != 0;
}

}  // namespace syncopate::cuda
