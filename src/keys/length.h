// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate {

// A length of training in steps or epochs: "500", "500 steps", "2.5 epochs".
struct Length {
  double value = 0;
  bool in_epochs = false;
  // The length in steps, given the steps per epoch.
  double steps(double steps_per_epoch) const {
    return in_epochs ? value * steps_per_epoch : value;
  }
};

}  // namespace syncopate
