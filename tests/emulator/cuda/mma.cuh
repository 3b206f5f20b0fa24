// The twin of kernels/cuda/mma.cuh: the lanes of a warp meet, and the last one
// computes for all by PTX's map of fragments. What a copy is to overwrite is
// poisoned until its thread has waited for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <source_location>
#include <utility>

#include "base/check.h"
#include "cuda/platform.h"
#include "emulator/lanes.h"

namespace syncopate::cuda {

inline uint32_t pack_bf16(float low, float high) {
  return static_cast<uint32_t>(from_f32<Bf16>(high).bits) << 16 |
         from_f32<Bf16>(low).bits;
}

namespace emulated {

inline float half_of(uint32_t pair, int half) {
  return to_f32(Bf16{static_cast<uint16_t>(pair >> (half * 16))});
}

struct Factors {
  float* sum;
  const uint32_t* a;
  uint32_t b[2];
};

inline void multiply(void* const (&lanes)[kWarpSize]) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& own = *static_cast<const Factors*>(lanes[lane]);
    const int group = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < 4; ++r)
        a[group + r % 2 * 8][2 * t + half + r / 2 * 8] =
            half_of(own.a[r], half);
      for (int r = 0; r < 2; ++r)
        b[2 * t + half + r * 8][group] = half_of(own.b[r], half);
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    float* sum = static_cast<const Factors*>(lanes[lane])->sum;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (int k = 0; k < 16; ++k) sum[i] += a[row][k] * b[k][column];
    }
  }
}

struct MatrixRow {
  uint32_t* to;
  const Bf16* row;
  bool is_transposed;
};

inline void load(void* const (&lanes)[kWarpSize]) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& own = *static_cast<const MatrixRow*>(lanes[lane]);
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint32_t pair = 0;
      for (int half = 0; half < 2; ++half) {
        int row = lane / 4, column = lane % 4 * 2 + half;
        if (own.is_transposed) std::swap(row, column);
        const auto& holder =
            *static_cast<const MatrixRow*>(lanes[matrix * 8 + row]);
        pair |= static_cast<uint32_t>(holder.row[column].bits) << (half * 16);
      }
      own.to[matrix] = pair;
    }
  }
}

inline void load_together(MatrixRow own, std::source_location site) {
  CHECK_MSG(std::bit_cast<uintptr_t>(own.row) % 16 == 0,
            "a matrix's row at no multiple of 16 bytes");
  emulator::meet_in_warp({.op = emulator::WarpOp::kLoadMatrices,
                          .mask = ~0u,
                          .value = std::bit_cast<uintptr_t>(&own),
                          .together = load,
                          .site = site});
}

}  // namespace emulated

inline void mma(float (&sum)[4],
                const uint32_t (&a)[4],
                uint32_t b0,
                uint32_t b1,
                std::source_location site = std::source_location::current()) {
  emulated::Factors own{sum, a, {b0, b1}};
  emulator::meet_in_warp({.op = emulator::WarpOp::kMultiply,
                          .mask = ~0u,
                          .value = std::bit_cast<uintptr_t>(&own),
                          .together = emulated::multiply,
                          .site = site});
}

inline void load_matrices(
    uint32_t (&to)[4],
    const Bf16* row,
    std::source_location site = std::source_location::current()) {
  emulated::load_together({to, row, false}, site);
}
inline void load_transposed(
    uint32_t (&to)[4],
    const Bf16* row,
    std::source_location site = std::source_location::current()) {
  emulated::load_together({to, row, true}, site);
}

template <int kBytes>
void copy_async(void* to, const void* from, bool is_in) {
  static_assert(kBytes == 4 || kBytes == 16);
  emulator::start_copy(to, from, kBytes, is_in);
}

inline void commit_copies() {
  emulator::commit_copies();
}

template <int kPending>
void wait_for_copies() {
  emulator::wait_for_copies(kPending);
}

}  // namespace syncopate::cuda
