// Scaled dot-product attention within sequences of different lengths, block by
// block: the matrix of probabilities is never stored as a whole.
//
//   S = Q K^T / sqrt(D),  P = softmax(S),  out = dropout(P) V
//
// for each sequence and head (Vaswani et al. 2017, section 3.2.1; blocked as in
// Dao et al. 2022, "FlashAttention": backward recomputes P from S and its
// log-sum-exp). The softmax runs over each row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/sequences.h"

namespace syncopate {

inline constexpr int64_t kMostHeadColumnsOnGpu = 128;

// On tensor cores, which take heads of a multiple of 16 columns in bf16,
// drawing dropout would be a large part of the work, so forward keeps a bit for
// each score, and backward draws nothing. Elsewhere backward draws again.
constexpr bool keeps_draws(DeviceKind device, DType dtype, int64_t D) {
  return device == DeviceKind::kCuda && dtype == DType::kBf16 && D % 16 == 0;
}
// Of the bits of up to N sequences with up to max_length tokens, in words
// of 32.
Shape kept_shape(int64_t N, int64_t heads, int64_t max_length);

// H = heads * D. Head a of a token occupies columns a * D to (a + 1) * D of
// each of the three parts. Dropout draws element (query position, key position)
// of head a of sequence n from Philox (seed ^ salt, kDropout, first_sample + n,
// (a * max_position + query) * max_position + key) with max_position = 65536.
// Draws come in blocks (base/rng.h); the part of a block's number above 2^32
// goes into the second number of the sequence of draws. On a GPU D is at most
// kMostHeadColumnsOnGpu.
struct AttentionForwardArgs {
  Tensor out;       // (T, H) fp32 or bf16
  Tensor lse;       // (T, heads) fp32: log sum exp of S
  ConstTensor qkv;  // (T, 3 H): queries, keys, values
  Sequences sequences;
  int64_t heads;
  TokenDropout dropout = {};
  // kept_shape() int32, assigned, if p > 0 and keeps_draws().
  Tensor kept = {};
};
void attention_forward(Context& context, const AttentionForwardArgs& args);

struct AttentionBackwardArgs {
  Tensor dqkv;       // (T, 3 H), assigned; must not alias qkv
  ConstTensor dout;  // (T, H)
  ConstTensor qkv;
  ConstTensor out;  // as forward left it
  ConstTensor lse;  // as forward left it
  Sequences sequences;
  int64_t heads;
  TokenDropout dropout = {};
  ConstTensor kept = {};  // as forward left it
};
void attention_backward(Context& context, const AttentionBackwardArgs& args);

}  // namespace syncopate
