// Naive attention in double precision, with the whole matrix of probabilities.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "reference/reference.h"

namespace syncopate::reference {

struct Attention {
  std::vector<int64_t> lengths;  // per sequence
  int64_t heads, D;
  // Factor of element (sequence, head, query, key) of P.
  std::function<double(int64_t, int64_t, int64_t, int64_t)> mask;

  int64_t H() const { return heads * D; }
  int64_t tokens() const;
};

struct AttentionResult {
  Values out;  // (T, H)
  Values lse;  // (T, heads)
};
AttentionResult attention_forward(const Attention& attention,
                                  const Values& qkv);  // (T, 3 H)

// Returns (T, 3 H); `out` is used for the sums of dout * out.
Values attention_backward(const Attention& attention,
                          const Values& dout,
                          const Values& qkv,
                          const Values& out);

}  // namespace syncopate::reference
