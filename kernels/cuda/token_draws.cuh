// Which elements of a row of tokens a dropout keeps (ops/sequences.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/philox.cuh"
#include "ops/sequences.h"

namespace syncopate::cuda {

struct TokenDraws {
  const int32_t *sequence, *position;
  const DropoutKey* key;
  uint64_t salt;
  int64_t H;
  bool is_dropping;
  uint32_t threshold;  // smaller draws drop
  float kept_scale;

  // Applies dropout to elements h to h + V - 1 of token t's row. V is 1, or a
  // multiple of 4 that divides h and H.
  template <int V>
  __device__ __forceinline__ void drop(float (&values)[V],
                                       int64_t t,
                                       int64_t h) const {
    static_assert(V == 1 || V % 4 == 0);
    if (!is_dropping) return;
    const uint64_t seed = key->seed ^ salt;
    const uint64_t sample =
        key->first_sample + static_cast<uint64_t>(sequence[t]);
    const int64_t i = position[t] * H + h;
    if constexpr (V == 1) {
      const Draws draws = philox_draws(seed, Purpose::kDropout, sample, i / 4);
      const int64_t place = i % 4;
      const uint32_t word = place < 2
                                ? (place == 0 ? draws.word[0] : draws.word[1])
                                : (place == 2 ? draws.word[2] : draws.word[3]);
      values[0] = word >= threshold ? values[0] * kept_scale : 0.0f;
    } else {
      for (int e = 0; e < V; e += 4) {
        const Draws draws =
            philox_draws(seed, Purpose::kDropout, sample, (i + e) / 4);
        for (int d = 0; d < 4; ++d)
          values[e + d] =
              draws.word[d] >= threshold ? values[e + d] * kept_scale : 0.0f;
      }
    }
  }
};

inline TokenDraws token_draws(const Sequences& sequences,
                              const TokenDropout& dropout,
                              int64_t H) {
  // Draws below p * 2^32 drop; p < 1 is at most 1 - 2^-24, so this fits.
  return {.sequence = sequences.sequence,
          .position = sequences.position,
          .key = dropout.key,
          .salt = dropout.salt,
          .H = H,
          .is_dropping = dropout.p != 0,
          .threshold = static_cast<uint32_t>(
              std::ceil(static_cast<double>(dropout.p) * 0x1.0p32)),
          .kept_scale = 1.0f / (1.0f - dropout.p)};
}

}  // namespace syncopate::cuda
