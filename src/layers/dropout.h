// Inverted dropout in place; nothing in evaluation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/walk.h"

namespace syncopate {

class Dropout {
 public:
  // `layer` tells apart the dropout layers of one network.
  Dropout(float p, uint64_t layer) : p_(p), layer_(layer) {}

  // x = mask * x / (1 - p) in place. In place is sound behind a ReLU whose
  // backward asks where its output was positive: a dropped element has
  // gradient zero either way.
  void apply(Walk& walk, const Slot& x) const;
  // Backward is the same mask on the gradient.
  void backward(Walk& walk, const Slot& dx) const { apply(walk, dx); }

 private:
  float p_;
  uint64_t layer_;
};

}  // namespace syncopate
