// The first half of a transformer layer: every token attends to the tokens of
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
  int64_t heads;   // divides H
  float attention_dropout, hidden_dropout;
  int64_t max_length;  // tokens of the longest sequence
};

class SelfAttention {
 public:
  // Registers NAME.self.query, .key, .value (weights, then biases),
  // NAME.output.dense and NAME.output.LayerNorm. Uses the dropout places
  // `place` and `place` + 1.
  SelfAttention(Registrar& registrar,
                const std::string& name,
                const SelfAttentionShape& shape,
                uint64_t place);

  int64_t first_offset() const { return qkv_.first_offset(); }
  int64_t macs(int64_t length) const;  // per sequence

  // Returns y (T, H), newly taken. The caller keeps x, which in Pass::kTrain
  // must stay alive until backward.
  Slot forward(Walk& walk, const Slot& x);
  // Gives back dy and everything else forward took; returns dx, newly taken.
  Slot backward(Walk& walk, const Slot& dy, const Slot& x);
  // Replaces backward: gives back what forward kept.
  void forget(Walk& walk);

 private:
  SelfAttentionShape shape_;
  uint64_t place_;
  Linear qkv_, dense_;
  LayerNorm norm_;
  // Takes memory for the bits of dropout, if there are any.
  Slot take_kept(Walk& walk, const Slot& x) const;

  Slot parts_, seen_, lse_;  // (T, 3 H), (T, H), (T, heads); kept until
                             // backward
  Slot kept_;                // kept_shape(), or of no elements
};

}  // namespace syncopate
