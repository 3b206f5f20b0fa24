// Tiles of attention in shared memory and their products in fp32.
//
// The threads of a block form 8 teams of 16. A team owns some successive rows
// of a tile of scores, and each of its threads some of the columns. As rows
// belong to one team, only incoming tiles concern the whole block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/pack.cuh"
#include "cuda/platform.h"
#include "cuda/reduce.cuh"

namespace syncopate::cuda {

inline constexpr int kTeams = 8, kTeamThreads = 16;
inline constexpr int kAttentionThreads = kTeams * kTeamThreads;
inline constexpr int kVector = 4;  // floats per shared-memory access

// Tiles of kSide rows by up to kWidth >= D elements of a head.
template <int kSideOf, int kWidthOf>
struct AttentionTile {
  static constexpr int kSide = kSideOf, kWidth = kWidthOf;
  static constexpr int kRows = kSide / kTeams;            // per team
  static constexpr int kColumns = kSide / kTeamThreads;   // per thread
  static constexpr int kOutputs = kWidth / kTeamThreads;  // of a row's kWidth
  // Vectors of successive threads are in different banks.
  static constexpr int kStride = kWidth + kVector;
  static constexpr int kScoreStride = kSide + kVector;
  static constexpr int64_t kBytes = kSide * kStride * int64_t{sizeof(float)};
  static constexpr int64_t kScoreBytes =
      kSide * kScoreStride * int64_t{sizeof(float)};
};

__device__ __forceinline__ int team() {
  return static_cast<int>(threadIdx.x) / kTeamThreads;
}
__device__ __forceinline__ int team_thread() {
  return static_cast<int>(threadIdx.x) % kTeamThreads;
}

// Row order in a tile: unchanged, or with successive rows as columns of one
// thread: row r at place (r % kColumns) * 16 + r / kColumns.
enum class RowOrder : uint8_t { kPlain, kDealt };

// tile (kSide, kStride) = factor * from (rows, D) in fp32, whose rows are
// `stride` apart; zero beyond the last row and beyond D. Uses whole packs if
// kPack > 1.
template <typename Tile, RowOrder kOrder, int kPack, typename T>
__device__ void load_tile(float* tile,
                          const T* from,
                          int64_t stride,
                          int64_t rows,
                          int64_t D,
                          float factor) {
  constexpr int kPacks = Tile::kWidth / kPack;
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kSide * kPacks;
       i += kAttentionThreads) {
    const int row = i / kPacks, d = i % kPacks * kPack;
    Pack<T, kPack> values{};
    if (row < rows && d < D)
      values = Pack<T, kPack>::load(from + row * stride + d);
    const int place =
        kOrder == RowOrder::kPlain
            ? row
            : row % Tile::kColumns * kTeamThreads + row / Tile::kColumns;
    for (int e = 0; e < kPack; ++e)
      tile[place * Tile::kStride + d + e] = factor * values.get(e);
  }
}

template <typename Tile>
struct Scores {
  float at[Tile::kRows][Tile::kColumns];
};
template <typename Tile>
struct Outputs {
  float at[Tile::kRows][Tile::kOutputs];
};

// Column of a row's kWidth for output `index` of a thread.
template <typename Tile>
__device__ __forceinline__ int column_of_output(int index) {
  constexpr int kSpan = lesser(Tile::kOutputs, kVector);
  return (index / kSpan * kTeamThreads + team_thread()) * kSpan + index % kSpan;
}

// Multiplies the team's rows of `a` by the thread's rows of `b`: sums over D.
template <typename Tile>
__device__ __forceinline__ Scores<Tile> multiply_rows(const float* a,
                                                      const float* b,
                                                      int D) {
  using Vector = Pack<float, kVector>;
  Scores<Tile> sum{};
  for (int d = 0; d < D; d += kVector) {
    Vector left[Tile::kRows], right[Tile::kColumns];
    for (int i = 0; i < Tile::kRows; ++i)
      left[i] =
          Vector::load(a + (team() * Tile::kRows + i) * Tile::kStride + d);
    for (int j = 0; j < Tile::kColumns; ++j)
      right[j] = Vector::load(
          b + (j * kTeamThreads + team_thread()) * Tile::kStride + d);
    for (int e = 0; e < kVector; ++e)
      for (int i = 0; i < Tile::kRows; ++i)
        for (int j = 0; j < Tile::kColumns; ++j)
          sum.at[i][j] = fmaf(left[i].elem[e], right[j].elem[e], sum.at[i][j]);
  }
  return sum;
}

// Stores the team's rows of scores where all of its threads can read them.
template <typename Tile>
__device__ __forceinline__ void share_scores(float* shared,
                                             const Scores<Tile>& scores) {
  __syncwarp();
  for (int i = 0; i < Tile::kRows; ++i)
    for (int j = 0; j < Tile::kColumns; ++j)
      shared[(team() * Tile::kRows + i) * Tile::kScoreStride +
             j * kTeamThreads + team_thread()] = scores.at[i][j];
  __syncwarp();
}

// outputs += the team's shared rows (kSide) * b (kSide, kWidth)
template <typename Tile>
__device__ __forceinline__ void accumulate(Outputs<Tile>& outputs,
                                           const float* shared,
                                           const float* b) {
  using Vector = Pack<float, kVector>;
  constexpr int kSpan = lesser(Tile::kOutputs, kVector);
  using Span = Pack<float, kSpan>;
  for (int k = 0; k < Tile::kSide; k += kVector) {
    Vector left[Tile::kRows];
    for (int i = 0; i < Tile::kRows; ++i)
      left[i] = Vector::load(
          shared + (team() * Tile::kRows + i) * Tile::kScoreStride + k);
    for (int e = 0; e < kVector; ++e)
      for (int c = 0; c < Tile::kOutputs; c += kSpan) {
        const Span right =
            Span::load(b + (k + e) * Tile::kStride + column_of_output<Tile>(c));
        for (int i = 0; i < Tile::kRows; ++i)
          for (int s = 0; s < kSpan; ++s)
            outputs.at[i][c + s] =
                fmaf(left[i].elem[e], right.elem[s], outputs.at[i][c + s]);
      }
  }
}

// to (rows, D) = factor * outputs; `rows` counts from the block's first.
template <typename Tile, typename T>
__device__ void store_outputs(T* to,
                              int64_t stride,
                              const Outputs<Tile>& outputs,
                              int64_t rows,
                              int64_t D,
                              const float (&factor)[Tile::kRows]) {
  for (int i = 0; i < Tile::kRows; ++i) {
    const int row = team() * Tile::kRows + i;
    for (int c = 0; c < Tile::kOutputs; ++c) {
      const int d = column_of_output<Tile>(c);
      if (row < rows && d < D)
        to[row * stride + d] = from_f32<T>(outputs.at[i][c] * factor[i]);
    }
  }
}

__device__ __forceinline__ float team_max(float value) {
  for (int distance = kTeamThreads / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}
__device__ __forceinline__ float team_sum(float value) {
  for (int distance = kTeamThreads / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

}  // namespace syncopate::cuda
