// Successive words of a sequence of base/rng.h, generated in bulk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/rng.h"
#include "ops/quantize.h"

namespace syncopate::cpu {

// Words 4 * first_block to 4 * (first_block + blocks) - 1 of Rng(seed,
// Purpose::kQuantize, worker, step). Blocks are independent, so compilers can
// vectorise them.
inline void random_words(uint32_t* words,
                         const Draw& draw,
                         int64_t first_block,
                         int64_t blocks) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  const auto first_key0 = static_cast<uint32_t>(draw.seed);
  const uint32_t first_key1 =
      static_cast<uint32_t>(draw.seed >> 32) ^
      (static_cast<uint32_t>(Purpose::kQuantize) << 24) ^
      static_cast<uint32_t>(draw.step >> 32);
  for (int64_t block = 0; block < blocks; ++block) {
    uint32_t key0 = first_key0, key1 = first_key1;
    auto c0 = static_cast<uint32_t>(first_block + block);
    auto c1 = static_cast<uint32_t>(draw.step);
    auto c2 = static_cast<uint32_t>(draw.worker);
    auto c3 = static_cast<uint32_t>(draw.worker >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = kMultiplier0 * c0, p1 = kMultiplier1 * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ key0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ key1;
      c3 = static_cast<uint32_t>(p0);
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    words[4 * block] = c0;
    words[4 * block + 1] = c1;
    words[4 * block + 2] = c2;
    words[4 * block + 3] = c3;
  }
}

}  // namespace syncopate::cpu
