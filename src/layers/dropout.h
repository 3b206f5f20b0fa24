// Inverted dropout in place; no effect in evaluation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/walk.h"

namespace syncopate {

class Dropout {
 public:
  // `layer` distinguishes the dropout layers of one network.
  Dropout(float p, uint64_t layer) : p_(p), layer_(layer) {}

  // x = mask * x / (1 - p) in place. That is safe after a ReLU whose backward
  // tests where its output was positive: a dropped element has gradient zero
  // either way.
  void apply(Walk& walk, const Slot& x) const;
  // Applies the same mask to the gradient.
  void backward(Walk& walk, const Slot& dx) const { apply(walk, dx); }

 private:
  float p_;
  uint64_t layer_;
};

}  // namespace syncopate
