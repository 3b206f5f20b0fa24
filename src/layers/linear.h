// A dense layer with bias on fp32 rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/walk.h"

namespace syncopate {

class Linear {
 public:
  // Registers "NAME.weight" (K, D) and "NAME.bias" (K).
  Linear(Registrar& registrar, const std::string& name, int64_t D, int64_t K);

  int64_t first_offset() const { return weight_.offset; }
  int64_t macs() const { return weight_.shape.elems(); }

  Slot forward(Walk& walk, const Slot& x) const;  // (N, K) from (N, D)
  // Adds to the gradients of weight and bias; dx (N, D), newly taken.
  Slot backward(Walk& walk, const Slot& dy, const Slot& x) const;
  // The same where nothing below wants a gradient.
  void backward_parameters(Walk& walk, const Slot& dy, const Slot& x) const;

 private:
  ParameterRef weight_, bias_;
};

}  // namespace syncopate
