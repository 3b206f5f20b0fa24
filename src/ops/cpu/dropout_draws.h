// Determines which elements a dropout keeps (ops/elementwise.h,
// ops/sequences.h), sixteen at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "ops/cpu/simd.h"
#include "ops/sequences.h"

namespace syncopate::cpu {

using L8 = uint64_t __attribute__((vector_size(64)));

// Words 4 * block to 4 * (block + 8) - 1 of Rng(seed, kDropout, a), see
// base/rng.h: eight blocks in parallel. The upper 32 of a lane's 64 bits count
// only where they are shifted down.
[[gnu::always_inline]] inline void eight_blocks(uint32_t* words,
                                                uint64_t seed,
                                                uint64_t a,
                                                int64_t block) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr uint64_t kLow = 0xFFFFFFFF;
  auto key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32) ^
                  (static_cast<uint32_t>(Purpose::kDropout) << 24);
  L8 c0 = L8{0, 1, 2, 3, 4, 5, 6, 7} + static_cast<uint64_t>(block);
  L8 c1 = {}, c2 = L8{} + (a & kLow), c3 = L8{} + (a >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const L8 p0 = (c0 & kLow) * kMultiplier0, p1 = (c2 & kLow) * kMultiplier1;
    c0 = (p1 >> 32) ^ c1 ^ key0;
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ key1;
    c3 = p0;
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  const L8 first = (c0 & kLow) | (c1 << 32), second = (c2 & kLow) | (c3 << 32);
  const L8 halves[2] = {
      __builtin_shuffle(first, second, L8{0, 8, 1, 9, 2, 10, 3, 11}),
      __builtin_shuffle(first, second, L8{4, 12, 5, 13, 6, 14, 7, 15})};
  __builtin_memcpy(words, halves, sizeof halves);
}

// The effect of dropout on sixteen adjacent elements of a row.
struct KeepAll {
  [[gnu::always_inline]] F16 operator()(F16 value) const { return value; }
};
struct KeepDrawn {
  const uint32_t* words;
  uint32_t threshold;
  float scale;
  [[gnu::always_inline]] F16 operator()(F16 value) const {
    U16 drawn;
    __builtin_memcpy(&drawn, words, sizeof drawn);
    return drawn >= threshold ? value * scale : F16{};
  }
};

// The draws of one dropout for the elements of its samples.
class DropoutDraws {
 public:
  DropoutDraws() = default;
  DropoutDraws(const DropoutKey& key, uint64_t salt, float p)
      : seed_(key.seed ^ salt),
        first_sample_(key.first_sample),
        scale_(1.0f / (1.0f - p)),
        // Draws below p * 2^32 drop; p < 1 is at most 1 - 2^-24, so this fits.
        threshold_(static_cast<uint32_t>(
            std::ceil(static_cast<double>(p) * 0x1.0p32))) {}

  // Calls body(lanes, h, keep) for h = 0, 16, ... below `count`, for elements
  // first + h of sample n: keep(value) applies dropout to them.
  template <typename Body>
  void for_elements(int64_t n,
                    int64_t first,
                    int64_t count,
                    const Body& body) const {
    constexpr int64_t kPiece = 1024;  // elements; their words fit the L1 cache
    // Room for up to three preceding words of the same block, and up to 31
    // words that follow in the last eight blocks.
    uint32_t words[kPiece + 3 + 31];
    const uint64_t sample = first_sample_ + static_cast<uint64_t>(n);
    for (int64_t begin = 0; begin < count; begin += kPiece) {
      const int64_t end = std::min(begin + kPiece, count);
      const int64_t block = (first + begin) / 4;
      const int64_t before = (first + begin) % 4;
      for (int64_t i = 0; i < before + end - begin; i += 32)
        eight_blocks(words + i, seed_, sample, block + i / 4);
      for_vectors(begin, end, [&](auto lanes, int64_t h) {
        body(lanes, h,
             KeepDrawn{words + before + h - begin, threshold_, scale_});
      });
    }
  }

 private:
  uint64_t seed_ = 0, first_sample_ = 0;
  float scale_ = 1;
  uint32_t threshold_ = 0;
};

class TokenDraws {
 public:
  TokenDraws(const Sequences& sequences, const TokenDropout& dropout, int64_t H)
      : sequences_(sequences), H_(H), is_dropping_(dropout.p != 0) {
    if (is_dropping_) draws_ = {*dropout.key, dropout.salt, dropout.p};
  }

  // Calls body(lanes, h, keep) for h = 0, 16, ... of token t's row: keep(value)
  // applies dropout to its elements from h on.
  template <typename Body>
  void for_row(int64_t t, const Body& body) const {
    if (is_dropping_)
      draws_.for_elements(sequences_.sequence[t],
                          int64_t{sequences_.position[t]} * H_, H_, body);
    else
      for_vectors(0, H_,
                  [&](auto lanes, int64_t h) { body(lanes, h, KeepAll()); });
  }

 private:
  Sequences sequences_;
  int64_t H_;
  bool is_dropping_;
  DropoutDraws draws_;
};

}  // namespace syncopate::cpu
