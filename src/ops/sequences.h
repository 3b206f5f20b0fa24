// Sequences of tokens laid end to end, without padding: sequence n is rows
// offsets[n] to offsets[n + 1] of every tensor whose first dimension is T.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/elementwise.h"

namespace syncopate {

// The arrays lie in the context's memory.
struct Sequences {
  int64_t count = 0;                  // N
  int64_t tokens = 0;                 // T, in all
  int64_t max_length = 0;             // tokens of the longest
  const int32_t* offsets = nullptr;   // (N + 1), offsets[N] == T
  const int32_t* sequence = nullptr;  // (T) the sequence that a token is of
  const int32_t* position = nullptr;  // (T) its place in the sequence, from 0
};

// Inverted dropout by samples: what is drawn for an element depends on the
// sample's number among all that the run draws and on the element's place in
// the sample, never on the batch or the worker that the sample comes to.
// p = 0: nothing is dropped, `key` is not read.
struct TokenDropout {
  float p = 0;
  const DropoutKey* key = nullptr;  // in the context's memory
  uint64_t salt = 0;                // tells apart the places of a network
};

// y[t, h] = keep ? x[t, h] / (1 - p) : 0, where keep is drawn from Philox
// (seed ^ salt, kDropout, first_sample + sequence[t], position[t] * H + h).
// Backward is the same on dy. y may alias x.
void token_dropout(Context& context,
                   Tensor y,       // (T, H) fp32 or bf16
                   ConstTensor x,  // (T, H) alike
                   const Sequences& sequences,
                   const TokenDropout& dropout);

}  // namespace syncopate
