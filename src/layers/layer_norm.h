// Layer normalisation after a sub-layer of a post-norm transformer, with the
// sub-layer's dropout and the residual sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "layers/walk.h"
#include "ops/sequences.h"

namespace syncopate {

// Returns the token dropout of a walk, which is none except in training.
// `place` distinguishes the places of one network that use dropout.
TokenDropout token_dropout_of(const Walk& walk, float p, uint64_t place);

class LayerNorm {
 public:
  // Registers "NAME.weight" (gamma) and "NAME.bias" (beta), each (H).
  // `dropout` acts before the sum, at this place of the network.
  LayerNorm(Registrar& registrar,
            const std::string& name,
            int64_t H,
            float dropout = 0,
            uint64_t place = 0);

  // Returns y = norm(dropout(x) [+ residual]), newly taken. Takes over x (T,
  // H).
  Slot forward(Walk& walk,
               const Slot& x,
               const std::optional<Slot>& residual = {});

  // dx overwrites dy. Gives back what forward kept.
  void backward(Walk& walk, const Slot& dy);
  // Likewise, after a dense layer with this bias: adds the sum of dx's rows to
  // its gradient. Returns dresidual, newly taken.
  Slot backward_residual(Walk& walk, const Slot& dy, const ParameterRef& bias);

  // Replaces backward: gives back what forward kept.
  void forget(Walk& walk);

 private:
  void backward_into(Walk& walk,
                     const Slot& dy,
                     const Tensor& dresidual,
                     const Tensor& dbias);
  float p_;
  uint64_t place_;
  ParameterRef gamma_, beta_;
  Slot z_, mean_, rstd_;  // from forward to backward; z reuses x's memory
};

}  // namespace syncopate
