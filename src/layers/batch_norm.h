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
  void backward_into(Walk& walk,
                     const Slot& dx,
                     const Slot* dz,
                     const Slot& dy,
                     const Slot& x,
                     const Slot& y);
  int64_t C_;
  Activation activation_;
  ParameterRef gamma_, beta_, running_mean_, running_var_;
  Slot mean_, rstd_;  // of the batch, from forward to backward
};

}  // namespace syncopate
