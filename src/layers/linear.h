// A dense layer with bias, applied to rows; fp32 or bf16 like its input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "layers/walk.h"

namespace syncopate {

// What else a backward pass does, or need not do.
struct LinearBackward {
  // The gradient of the bias: summed here, or by the op that computed dy.
  enum class Bias : uint8_t { kSum, kIsSummed } bias = Bias::kSum;
  // (N, D), added to dx; the caller gives it back.
  std::optional<Slot> addend = {};
};

class Linear {
 public:
  // Registers "NAME.weight" (K, D) and "NAME.bias" (K).
  Linear(Registrar& registrar, const std::string& name, int64_t D, int64_t K);
  // Fuses layers of the same input into one product with their outputs side by
  // side: registers the weight of each name (K, D), then the bias of each (K).
  // The result is a layer with names * K outputs.
  Linear(Registrar& registrar,
         std::span<const std::string> names,
         int64_t D,
         int64_t K);

  int64_t first_offset() const { return weight_.offset; }
  const ParameterRef& bias() const { return bias_; }
  int64_t macs() const { return weight_.shape.elems(); }  // per row

  // Returns (N, K) from x (N, D); N is the number of rows of x.
  Slot forward(Walk& walk, const Slot& x) const;
  // Adds to the gradients of weight and bias; returns dx (N, D), newly taken.
  Slot backward(Walk& walk,
                const Slot& dy,
                const Slot& x,
                const LinearBackward& how = {}) const;
  // Does the same if nothing below needs a gradient.
  void backward_parameters(Walk& walk, const Slot& dy, const Slot& x) const;

 private:
  ParameterRef weight_, bias_;
};

}  // namespace syncopate
