// A dense layer with bias on rows, fp32 or bf16 as its input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "layers/walk.h"

namespace syncopate {

class Linear {
 public:
  // Registers "NAME.weight" (K, D) and "NAME.bias" (K).
  Linear(Registrar& registrar, const std::string& name, int64_t D, int64_t K);
  // Layers of one input in one product, their outputs side by side: registers
  // the weight of each name (K, D), then the bias of each (K). The whole is a
  // layer of names * K outputs.
  Linear(Registrar& registrar,
         std::span<const std::string> names,
         int64_t D,
         int64_t K);

  int64_t first_offset() const { return weight_.offset; }
  int64_t macs() const { return weight_.shape.elems(); }  // of one row

  // (N, K) from x (N, D); N is the rows of x.
  Slot forward(Walk& walk, const Slot& x) const;
  // Adds to the gradients of weight and bias; dx (N, D), newly taken.
  Slot backward(Walk& walk, const Slot& dy, const Slot& x) const;
  // The same where nothing below wants a gradient.
  void backward_parameters(Walk& walk, const Slot& dy, const Slot& x) const;

 private:
  ParameterRef weight_, bias_;
};

}  // namespace syncopate
