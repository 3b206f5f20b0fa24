// Philox4x32-10 in kernels: the numbers of base/rng.h, with random access to a
// sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "cuda/platform.h"

namespace syncopate::cuda {

// Four successive draws.
struct Draws {
  uint32_t word[4];
};

// Draws 4 * block to 4 * block + 3 of Rng(seed, purpose, a), whose counter
// holds the low 32 bits of `block`.
__device__ inline Draws philox_draws(uint64_t seed,
                                     Purpose purpose,
                                     uint64_t a,
                                     int64_t block) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  auto key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32) ^
                  (static_cast<uint32_t>(purpose) << 24);
  uint32_t c0 = static_cast<uint32_t>(block), c1 = 0;
  uint32_t c2 = static_cast<uint32_t>(a), c3 = static_cast<uint32_t>(a >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = kMultiplier0 * c0;
    const uint64_t p1 = kMultiplier1 * c2;
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
