// Random words for compressors, with random access to their sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/philox.cuh"
#include "ops/quantize.h"

namespace syncopate::cuda {

// Words 4 * block to 4 * block + 3 of Rng(seed, kQuantize, worker, step).
__device__ __forceinline__ Draws draws_of(const Draw& draw, int64_t block) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  auto key0 = static_cast<uint32_t>(draw.seed);
  uint32_t key1 = static_cast<uint32_t>(draw.seed >> 32) ^
                  (static_cast<uint32_t>(Purpose::kQuantize) << 24) ^
                  static_cast<uint32_t>(draw.step >> 32);
  auto c0 = static_cast<uint32_t>(block);
  auto c1 = static_cast<uint32_t>(draw.step);
  auto c2 = static_cast<uint32_t>(draw.worker);
  auto c3 = static_cast<uint32_t>(draw.worker >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = kMultiplier0 * c0, p1 = kMultiplier1 * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(p0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace syncopate::cuda
