// Layer normalisation behind a sub-layer of a post-norm transformer, with the
// sub-layer's dropout and the residual sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/walk.h"
#include "ops/sequences.h"

namespace syncopate {

// Dropout of tokens in a walk: none but in training. `place` tells apart the
// places of one network where something is dropped.
TokenDropout token_dropout_of(const Walk& walk, float p, uint64_t place);

class LayerNorm {
 public:
  // Registers "NAME.weight" (gamma) and "NAME.bias" (beta), each (H).
  LayerNorm(Registrar& registrar, const std::string& name, int64_t H);
  // With dropout in front of the sum.
  LayerNorm(Registrar& registrar,
            const std::string& name,
            int64_t H,
            float dropout,
            uint64_t place);

  // y = norm(x), newly taken. x (T, H) is the layer's from here on.
  Slot forward(Walk& walk, const Slot& x, const Sequences& sequences);
  // y = norm(dropout(x) + residual), the same.
  Slot forward_residual(Walk& walk,
                        const Slot& x,
                        const Slot& residual,
                        const Sequences& sequences);

  // dx in the place of dy. Gives back what forward kept.
  void backward(Walk& walk, const Slot& dy, const Sequences& sequences);
  // The same; dresidual, newly taken.
  Slot backward_residual(Walk& walk,
                         const Slot& dy,
                         const Sequences& sequences);

  // Instead of backward: gives back what forward kept.
  void forget(Walk& walk);

 private:
  Slot forward_with(Walk& walk,
                    const Slot& x,
                    const Slot* residual,
                    const Sequences& sequences);
  void backward_with(Walk& walk,
                     const Slot& dy,
                     const Slot* dresidual,
                     const Sequences& sequences);
  float p_;
  uint64_t place_;
  ParameterRef gamma_, beta_;
  Slot z_, mean_, rstd_;  // from forward to backward; z in the place of x
};

}  // namespace syncopate
