// Sequences of tokens stored end to end without padding: sequence n is rows
// offsets[n] to offsets[n + 1] of every tensor whose first dimension is T.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/elementwise.h"

namespace syncopate {

// The arrays are in the context's memory.
struct Sequences {
  int64_t count = 0;                  // N
  int64_t tokens = 0;                 // T, total
  int64_t max_length = 0;             // tokens in the longest sequence
  const int32_t* offsets = nullptr;   // (N + 1), offsets[N] == T
  const int32_t* sequence = nullptr;  // (T) sequence of each token
  const int32_t* position = nullptr;  // (T) position in the sequence, from 0
};

// Inverted dropout per sample: the draw for an element depends on the sample's
// number among all samples drawn in the run and on the element's position in
// the sample, never on the batch or worker that processes the sample. If p = 0,
// nothing is dropped and `key` is not read.
struct TokenDropout {
  float p = 0;
  const DropoutKey* key = nullptr;  // in the context's memory
  uint64_t salt = 0;                // distinguishes the places in a network
};

// Assigns y[t, h] = keep ? x[t, h] / (1 - p) : 0, where keep is drawn from
// Philox (seed ^ salt, kDropout, first_sample + sequence[t], position[t] * H +
// h). Backward is the same op on dy. y may alias x.
void token_dropout(Context& context,
                   Tensor y,       // (T, H) fp32 or bf16
                   ConstTensor x,  // (T, H), dtype of y
                   const Sequences& sequences,
                   const TokenDropout& dropout);

}  // namespace syncopate
