// The second half of a transformer layer, which treats each token separately:
//
//   y = norm(dropout(W_2 gelu(W_1 x)) + x)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/layer_norm.h"
#include "layers/linear.h"

namespace syncopate {

struct FeedForwardShape {
  int64_t hidden;        // H
  int64_t intermediate;  // I
  float dropout;
};

class FeedForward {
 public:
  // Registers NAME.intermediate.dense, NAME.output.dense,
  // NAME.output.LayerNorm.
  FeedForward(Registrar& registrar,
              const std::string& name,
              const FeedForwardShape& shape,
              uint64_t place);

  int64_t macs(int64_t length) const;  // per sequence

  // Returns y (T, H), newly taken. The caller keeps x, which in Pass::kTrain
  // must stay alive until backward.
  Slot forward(Walk& walk, const Slot& x);
  // Gives back dy and everything else forward took; returns dx, newly taken.
  Slot backward(Walk& walk, const Slot& dy, const Slot& x);
  // Replaces backward: gives back what forward kept.
  void forget(Walk& walk);

 private:
  Slot activate(Walk& walk) const;
  Linear up_, down_;
  LayerNorm norm_;
  // (T, I) W_1 x and gelu of it. Backward reads both, but on a CPU it computes
  // the second one again: a layer keeps a quarter less memory for one percent
  // more time. A GPU has the memory, and its step is bound by such passes.
  Slot inner_, active_;
};

}  // namespace syncopate
