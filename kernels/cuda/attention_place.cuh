// Which part of attention a block works on, and which scores dropout keeps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/draws.cuh"
#include "cuda/pack.cuh"
#include "cuda/platform.h"
#include "ops/attention.h"

namespace syncopate::cuda {

struct AttentionSizes {
  int64_t heads, D, tiles;  // for the longest sequence
  float scale;
  __host__ __device__ int64_t H() const { return heads * D; }
};

struct AttentionDropout {
  uint32_t threshold;  // smaller draws drop; 0: no dropout
  float kept_scale;
  const DropoutKey* key;
  uint64_t salt;
};

// The part of the problem that a block computes.
struct AttentionPlace {
  int64_t first_token, length, n, head, tile, first_row;

  __device__ AttentionPlace(const AttentionSizes& sizes,
                            const int32_t* offsets,
                            int side) {
    tile = blockIdx.x % sizes.tiles;
    const int64_t above = blockIdx.x / sizes.tiles;
    head = above % sizes.heads;
    n = above / sizes.heads;
    first_token = offsets[n];
    length = offsets[n + 1] - first_token;
    first_row = tile * side;
  }
  // Offset of row `row` of the sequence in (T, H), and in part 0 (queries), 1
  // (keys) or 2 (values) of (T, 3 H).
  __device__ int64_t narrow(const AttentionSizes& sizes, int64_t row) const {
    return (first_token + row) * sizes.H() + head * sizes.D;
  }
  __device__ int64_t wide(const AttentionSizes& sizes,
                          int part,
                          int64_t row) const {
    return ((first_token + row) * 3 + part) * sizes.H() + head * sizes.D;
  }
  __device__ int64_t stats(const AttentionSizes& sizes, int64_t row) const {
    return (first_token + row) * sizes.heads + head;
  }
};

// Dropout's random draws for the scores of a block's head.
class ScoreDraws {
 public:
  __device__ ScoreDraws(const AttentionDropout& dropout,
                        const AttentionPlace& place)
      : threshold_(dropout.threshold), head_(place.head) {
    if (threshold_ == 0) return;
    // Seed and purpose are mixed by xor; draws_of() uses the other purpose.
    constexpr uint64_t kOther = static_cast<uint64_t>(Purpose::kQuantize) ^
                                static_cast<uint64_t>(Purpose::kDropout);
    seed_ = dropout.key->seed ^ dropout.salt ^ (kOther << 56);
    sample_ = dropout.key->first_sample + static_cast<uint64_t>(place.n);
  }

  __device__ bool keeps_all() const { return threshold_ == 0; }

  // Draws of a query for its keys. The number of a draw is
  // (head * 2^16 + query) * 2^16 + key; the high word of a block, that number
  // divided by 4, goes into the second number of the sequence of draws. As keys
  // are below 2^16, they are in the block's low word alone.
  struct Query {
    uint32_t low, high;
  };
  __device__ Query of_query(int64_t query) const {
    const int64_t block = (head_ * 65536 + query) * 16384;
    return {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32)};
  }

  // Bit k: whether key - key % 4 + k is kept.
  __device__ uint32_t four_keys(const Query& query, int64_t key) const {
    const uint32_t block = query.low + static_cast<uint32_t>(key) / 4;
    const Draws draws =
        draws_of({.seed = seed_, .worker = sample_, .step = query.high}, block);
    uint32_t kept = 0;
    for (int k = 0; k < 4; ++k)
      kept |= static_cast<uint32_t>(draws.word[k] >= threshold_) << k;
    return kept;
  }

 private:
  uint32_t threshold_;
  int64_t head_;
  uint64_t seed_ = 0, sample_ = 0;
};

inline AttentionSizes sizes_of(const ConstTensor& out, int64_t heads) {
  const int64_t D = out.shape[1] / heads;
  return {heads, D, 0, 1.0f / std::sqrt(static_cast<float>(D))};
}

inline AttentionDropout dropout_of(const TokenDropout& dropout) {
  // p < 1 means p <= 1 - 2^-24, so this fits.
  return {static_cast<uint32_t>(
              std::ceil(static_cast<double>(dropout.p) * 0x1.0p32)),
          1.0f / (1.0f - dropout.p), dropout.key, dropout.salt};
}

// Sets sizes.tiles for tiles of `side` rows; returns the blocks of the grid.
inline unsigned grid_of(AttentionSizes& sizes,
                        const Sequences& sequences,
                        int side) {
  sizes.tiles = ceil_div(sequences.max_length, side);
  const int64_t blocks = sequences.count * sizes.heads * sizes.tiles;
  CHECK(blocks <= INT32_MAX);
  return static_cast<unsigned>(blocks);
}

}  // namespace syncopate::cuda
