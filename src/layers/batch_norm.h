// Batch normalisation, with the residual sum and ReLU that follow it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "layers/walk.h"
#include "ops/norm.h"

namespace syncopate {

class BatchNorm {
 public:
  // Registers "NAME.weight" (gamma), "NAME.bias" (beta), and the buffers
  // "NAME.running_mean" and "NAME.running_var", each (C). With the bias b (C)
  // of the preceding convolution it normalises x + b. In training the mean
  // cancels b: y does not depend on it, its gradient is 0, and only the running
  // mean includes it. In evaluation y = bn(x + b).
  BatchNorm(Registrar& registrar,
            const std::string& name,
            int64_t C,
            Activation activation,
            const ParameterRef& bias = {});

  // Returns y = act(bn(x) [+ z]), newly taken. Uses batch statistics in
  // training and for Pass::kStatistics, running ones for Pass::kEvaluate.
  Slot forward(Walk& walk, const Slot& x, const std::optional<Slot>& z = {});

  // For a forward pass without z. dx overwrites dy's first term and is
  // returned; the second term is released.
  Slot backward(Walk& walk, const GradientSum& dy, const Slot& x);
  // For a forward pass with z. dz overwrites dy's first term. Returns dx, which
  // overwrites the second term or, if there is none, is newly taken.
  Slot backward_residual(Walk& walk,
                         const GradientSum& dy,
                         const Slot& x,
                         const Slot& y);

 private:
  // Returns the running mean of x alone, in the memory of mean_ if there is a
  // bias.
  ConstTensor running_mean_of_x(Walk& walk) const;
  void backward_into(Walk& walk,
                     const Slot& dx,
                     const Slot* dz,
                     const GradientSum& dy,
                     const Slot& x,
                     const Slot* y);
  int64_t C_;
  Activation activation_;
  ParameterRef gamma_, beta_, running_mean_, running_var_;
  ParameterRef bias_;  // of the preceding convolution; offset -1: none
  Slot mean_, rstd_;   // batch statistics, kept from forward to backward
  // Where y with a residual was positive; likewise, where the op has it.
  std::optional<Slot> mask_;
};

}  // namespace syncopate
