// The second half of a transformer's layer: every token by itself.
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
  Linear up_, down_;
  LayerNorm norm_;
  // (T, I) W_1 x, until backward. gelu of it is computed again there: a
  // quarter less to keep of a layer, for a hundredth more time.
  Slot inner_;
};

}  // namespace syncopate
