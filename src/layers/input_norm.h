// Batch normalisation of the input images, without scale and shift: each
// channel has mean 0 and variance 1 over the batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_vector.h"
#include "layers/walk.h"

namespace syncopate {

class InputNorm {
 public:
  // Registers the buffers "NAME.running_mean" and "NAME.running_var" (C); there
  // are no parameters.
  InputNorm(Registrar& registrar, const std::string& name, int64_t C);

  // Call before the first running walk on a device.
  void plan(Context& context);

  // Returns y, newly taken, of x's shape: (N, C, H, W) fp32. Statistics as in
  // BatchNorm. There is no backward, because nothing below needs a gradient.
  Slot forward(Walk& walk, const Slot& x) const;

 private:
  int64_t C_;
  ParameterRef running_mean_, running_var_;
  DeviceVector<float> scale_, shift_;  // (C) ones and zeros, in device memory
};

}  // namespace syncopate
