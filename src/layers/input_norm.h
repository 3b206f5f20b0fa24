// Batch normalisation of the images themselves, without scale and shift: each
// channel has mean 0 and variance 1 over the batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_vector.h"
#include "layers/walk.h"

namespace syncopate {

class InputNorm {
 public:
  // Registers the buffers "NAME.running_mean", "NAME.running_var" (C); there is
  // nothing to learn.
  InputNorm(Registrar& registrar, const std::string& name, int64_t C);

  // Before the first running walk on a device.
  void plan(Context& context);

  // y, newly taken, like x: (N, C, H, W) fp32. Statistics as BatchNorm has
  // them. There is no backward: nothing below wants a gradient.
  Slot forward(Walk& walk, const Slot& x) const;

 private:
  int64_t C_;
  ParameterRef running_mean_, running_var_;
  DeviceVector<float> scale_, shift_;  // (C) 1 and 0, in device memory
};

}  // namespace syncopate
