// Small products, transposes and dropout masks over tiles that stay in cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>

#include "base/rng.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/vector_math.h"

namespace syncopate::cpu {

// Rows of C for which kVectors accumulators per row fit: 24 of the 32 registers
// hold sums, the others operands.
template <int kVectors>
inline constexpr int kTileRows = kVectors == 1 ? 12 : 24 / kVectors;

enum class Product : uint8_t { kAssign, kAdd };

// C (kRows, 16 kVectors) = or += A (kRows, depth) * B (depth, 16 kVectors). The
// next row of A is `a_row` elements ahead, the next column `a_column`.
template <int kRows, int kVectors, Product kProduct>
inline void multiply_tile(float* c,
                          int64_t c_row,
                          const float* a,
                          int64_t a_row,
                          int64_t a_column,
                          const float* b,
                          int64_t b_row,
                          int64_t depth) {
  F16 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sum[row][v] = kProduct == Product::kAdd
                        ? load(c + row * c_row + v * kLanes)
                        : F16{};
  for (int64_t k = 0; k < depth; ++k) {
    F16 right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      right[v] = load(b + k * b_row + v * kLanes);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const F16 left = splat(a[row * a_row + k * a_column]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[row][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      store(c + row * c_row + v * kLanes, sum[row][v]);
}

// Does the same for any number of rows.
template <int kVectors, Product kProduct>
void multiply(float* c,
              int64_t c_row,
              const float* a,
              int64_t a_row,
              int64_t a_column,
              const float* b,
              int64_t b_row,
              int64_t rows,
              int64_t depth) {
  const auto tiles = [&]<int kRows>() {
    for (; rows >= kRows; rows -= kRows) {
      multiply_tile<kRows, kVectors, kProduct>(c, c_row, a, a_row, a_column, b,
                                               b_row, depth);
      c += kRows * c_row;
      a += kRows * a_row;
    }
  };
  tiles.template operator()<kTileRows<kVectors>>();
  tiles.template operator()<4>();
  tiles.template operator()<1>();
}

// C += A * B, where B has `vectors` groups of sixteen columns.
inline void multiply_add(float* c,
                         const float* a,
                         int64_t a_row,
                         int64_t a_column,
                         const float* b,
                         int64_t vectors,
                         int64_t rows,
                         int64_t depth) {
  const int64_t width = vectors * kLanes;
  const auto panels = [&]<int kVectors>() {
    for (; vectors >= kVectors; vectors -= kVectors) {
      multiply<kVectors, Product::kAdd>(c, width, a, a_row, a_column, b, width,
                                        rows, depth);
      c += kVectors * kLanes;
      b += kVectors * kLanes;
    }
  };
  panels.template operator()<4>();
  panels.template operator()<2>();
  panels.template operator()<1>();
}

// Exchanges lane i + kDistance of `low` with lane i of `high`.
template <int kDistance, size_t... kLane>
[[gnu::always_inline]] inline void
exchange_lanes(F16& low, F16& high, std::index_sequence<kLane...>) {
  const F16 a = low, b = high;
  low = __builtin_shuffle(
      a, b, I16{(kLane & kDistance ? 16 + kLane - kDistance : kLane)...});
  high = __builtin_shuffle(
      a, b, I16{(kLane & kDistance ? 16 + kLane : kLane + kDistance)...});
}

template <int kDistance>
[[gnu::always_inline]] inline void transpose_step(F16 (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int row = 0; row < kLanes; ++row)
    if ((row & kDistance) == 0)
      exchange_lanes<kDistance>(rows[row], rows[row + kDistance],
                                std::make_index_sequence<kLanes>());
}

[[gnu::always_inline]] inline void transpose(F16 (&rows)[kLanes]) {
  transpose_step<1>(rows);
  transpose_step<2>(rows);
  transpose_step<4>(rows);
  transpose_step<8>(rows);
}

// Prefetches (rows, D), rows `stride` apart; only a hint, so rows beyond the
// last do no harm.
template <typename T>
void prefetch_rows(const T* from, int64_t stride, int64_t rows, int64_t D) {
  constexpr int64_t kLine = 64 / sizeof(T);  // elements per cache line
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t d = 0; d < D; d += kLine)
      __builtin_prefetch(from + row * stride + d);
}

// to (D, width) = factor * transposed from (rows, D), whose rows are `stride`
// apart; zero beyond the last row. rows <= width, a multiple of 16.
template <typename T>
void load_transposed(float* to,
                     int64_t width,
                     const T* from,
                     int64_t stride,
                     int64_t rows,
                     int64_t D,
                     float factor) {
  for_vectors(0, D, [&](auto lanes, int64_t d) {
    const int64_t columns = std::min<int64_t>(kLanes, D - d);
    for (int64_t first = 0; first < width; first += kLanes) {
      F16 tile[kLanes];
      for (int64_t i = 0; i < kLanes; ++i)
        tile[i] = first + i < rows
                      ? lanes.get(from + (first + i) * stride + d) * factor
                      : F16{};
      transpose(tile);
      for (int64_t i = 0; i < columns; ++i)
        store(to + (d + i) * width + first, tile[i]);
    }
  });
}

// to (rows, D), rows `stride` apart = transposed from (D, width) * factor,
// where factor (width) has one value per row.
template <typename T>
void store_transposed(T* to,
                      int64_t stride,
                      const float* from,
                      int64_t width,
                      int64_t rows,
                      int64_t D,
                      const float* factor) {
  for_vectors(0, D, [&](auto lanes, int64_t d) {
    const int64_t columns = std::min<int64_t>(kLanes, D - d);
    for (int64_t first = 0; first < rows; first += kLanes) {
      const F16 factors = load(factor + first);
      F16 tile[kLanes] = {};
      for (int64_t i = 0; i < columns; ++i)
        tile[i] = load(from + (d + i) * width + first) * factors;
      transpose(tile);
      const int64_t count = std::min<int64_t>(kLanes, rows - first);
      for (int64_t i = 0; i < count; ++i)
        lanes.put(to + (first + i) * stride + d, tile[i]);
    }
  });
}

// to (rows, D) = factor * from (rows, D); zero beyond column D up to a multiple
// of 16 if rows of `to` have room for that.
template <typename T>
void load_rows(float* to,
               int64_t to_stride,
               const T* from,
               int64_t from_stride,
               int64_t rows,
               int64_t D,
               float factor) {
  const bool is_padded = to_stride >= (D + kLanes - 1) / kLanes * kLanes;
  constexpr int64_t kAhead = 8;  // rows; too far apart for hardware prefetching
  prefetch_rows(from, from_stride, std::min(kAhead, rows), D);
  for (int64_t row = 0; row < rows; ++row) {
    prefetch_rows(from + (row + kAhead) * from_stride, from_stride, 1, D);

    for_vectors(0, D, [&](auto lanes, int64_t d) {
      const F16 value = lanes.get(from + row * from_stride + d) * factor;
      if (is_padded)
        store(to + row * to_stride + d, value);
      else
        lanes.put(to + row * to_stride + d, value);
    });
  }
}

// to (rows, D) = from (rows, D)
template <typename T>
void store_rows(T* to,
                int64_t to_stride,
                const float* from,
                int64_t from_stride,
                int64_t rows,
                int64_t D) {
  for (int64_t row = 0; row < rows; ++row)
    for_vectors(0, D, [&](auto lanes, int64_t d) {
      lanes.put(to + row * to_stride + d,
                lanes.get(from + row * from_stride + d));
    });
}

// Returns the two words of x * factor.
[[gnu::always_inline]] inline void multiply_wide(U16& low,
                                                 U16& high,
                                                 U16 x,
                                                 uint64_t factor) {
  using Wide = uint64_t __attribute__((vector_size(64)));
  const auto pairs = reinterpret_cast<Wide>(x);
  const Wide even = (pairs & 0xFFFFFFFF) * factor;
  const Wide odd = (pairs >> 32) * factor;
  low = reinterpret_cast<U16>((even & 0xFFFFFFFF) | (odd << 32));
  high = reinterpret_cast<U16>((even >> 32) | (odd & 0xFFFFFFFF00000000));
}

// Four successive draws per lane from Rng(seed, kDropout, sample, high) at the
// lane's block `low` (base/rng.h): Philox rounds on vectors.
[[gnu::always_inline]] inline void draw_words(U16 (&words)[4],
                                              uint64_t seed,
                                              uint64_t sample,
                                              U16 low,
                                              uint32_t high) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  auto key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32) ^
                  (static_cast<uint32_t>(Purpose::kDropout) << 24);
  U16 c0 = low, c1 = high - U16{}, c2 = static_cast<uint32_t>(sample) - U16{},
      c3 = static_cast<uint32_t>(sample >> 32) - U16{};
  for (int round = 0; round < 10; ++round) {
    U16 low0, high0, low1, high1;
    multiply_wide(low0, high0, c0, kMultiplier0);
    multiply_wide(low1, high1, c2, kMultiplier1);
    c0 = high1 ^ c1 ^ key0;
    c1 = low1;
    c2 = high0 ^ c3 ^ key1;
    c3 = low0;
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

}  // namespace syncopate::cpu
