// Batch normalisation with the residual sum and the ReLU that follow it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/walk.h"
#include "ops/norm.h"

namespace syncopate {

class BatchNorm {
 public:
  // Registers "NAME.weight" (gamma), "NAME.bias" (beta), and the buffers
  // "NAME.running_mean", "NAME.running_var", each (C).
  BatchNorm(Registrar& registrar,
            const std::string& name,
            int64_t C,
            Activation activation);
  // The same of x + b, where b (C) is the bias of the convolution in front. In
  // training the mean takes b away again: y does not depend on it, its gradient
  // is 0, and only the running mean has it. In evaluation y = bn(x + b).
  BatchNorm(Registrar& registrar,
            const std::string& name,
            int64_t C,
            Activation activation,
            const ParameterRef& bias);

  // y = act(bn(x) [+ z]), newly taken. Batch statistics in training and for
  // Pass::kStatistics, running ones for Pass::kEvaluate.
  Slot forward(Walk& walk, const Slot& x);
  Slot forward_residual(Walk& walk, const Slot& x, const Slot& z);

  // dx in the place of dy. `y` is read where there is a ReLU only.
  void backward(Walk& walk, const Slot& dy, const Slot& x, const Slot& y);
  // dz in the place of dy; dx, newly taken.
  Slot backward_residual(Walk& walk,
                         const Slot& dy,
                         const Slot& x,
                         const Slot& y);

 private:
  Slot forward_with(Walk& walk, const Slot& x, const Slot* z);
  // The running mean of x alone, in the place of mean_ where there is a bias.
  ConstTensor running_mean_of_x(Walk& walk) const;
  void backward_into(Walk& walk,
                     const Slot& dx,
                     const Slot* dz,
                     const Slot& dy,
                     const Slot& x,
                     const Slot& y);
  int64_t C_;
  Activation activation_;
  ParameterRef gamma_, beta_, running_mean_, running_var_;
  ParameterRef bias_;  // of x; offset -1: none
  Slot mean_, rstd_;   // of the batch, from forward to backward
};

}  // namespace syncopate
