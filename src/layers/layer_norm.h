// Layer normalisation after a sub-layer of a post-norm transformer, with the
// sub-layer's dropout and the residual sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/walk.h"
#include "ops/sequences.h"

namespace syncopate {

// Returns the token dropout of a walk, which is none except in training.
// `place` distinguishes the places of one network that use dropout.
TokenDropout token_dropout_of(const Walk& walk, float p, uint64_t place);

class LayerNorm {
 public:
  // Registers "NAME.weight" (gamma) and "NAME.bias" (beta), each (H).
  LayerNorm(Registrar& registrar, const std::string& name, int64_t H);
  // Adds dropout before the sum.
  LayerNorm(Registrar& registrar,
            const std::string& name,
            int64_t H,
            float dropout,
            uint64_t place);

  // Returns y = norm(x), newly taken. Takes over x (T, H).
  Slot forward(Walk& walk, const Slot& x, const Sequences& sequences);
  // Returns y = norm(dropout(x) + residual), likewise.
  Slot forward_residual(Walk& walk,
                        const Slot& x,
                        const Slot& residual,
                        const Sequences& sequences);

  // dx overwrites dy. Gives back what forward kept.
  void backward(Walk& walk, const Slot& dy, const Sequences& sequences);
  // Likewise; returns dresidual, newly taken.
  Slot backward_residual(Walk& walk,
                         const Slot& dy,
                         const Sequences& sequences);

  // Replaces backward: gives back what forward kept.
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
  Slot z_, mean_, rstd_;  // from forward to backward; z reuses x's memory
};

}  // namespace syncopate
