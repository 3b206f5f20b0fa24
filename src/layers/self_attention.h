// The first half of a transformer's layer: every token looks at the tokens of
// its sequence.
//
//   y = norm(dropout(W_o attention(W_qkv x)) + x)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/layer_norm.h"
#include "layers/linear.h"

namespace syncopate {

struct SelfAttentionShape {
  int64_t hidden;  // H
  int64_t heads;   // H is a multiple of them
  float attention_dropout, hidden_dropout;
};

class SelfAttention {
 public:
  // Registers NAME.self.query, .key, .value (weights, then biases),
  // NAME.output.dense, NAME.output.LayerNorm. Takes `place` and the next.
  SelfAttention(Registrar& registrar,
                const std::string& name,
                const SelfAttentionShape& shape,
                uint64_t place);

  int64_t first_offset() const { return qkv_.first_offset(); }
  int64_t macs(int64_t length) const;  // of a sequence

  // y (T, H), newly taken. x stays the caller's, and in Pass::kTrain must stay
  // alive until backward.
  Slot forward(Walk& walk, const Slot& x, const Sequences& sequences);
  // Gives back dy and everything else forward took; dx, newly taken.
  Slot backward(Walk& walk,
                const Slot& dy,
                const Slot& x,
                const Sequences& sequences);
  // Instead of backward: gives back what forward kept.
  void forget(Walk& walk);

 private:
  SelfAttentionShape shape_;
  uint64_t place_;
  Linear qkv_, dense_;
  LayerNorm norm_;
  Slot parts_, seen_, lse_;  // (T, 3 H), (T, H), (T, heads); until backward
};

}  // namespace syncopate
