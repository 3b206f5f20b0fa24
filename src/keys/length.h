// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace syncopate {

// A length of training in steps or epochs: "500", "500 steps", "2.5 epochs".
struct Length {
  double value = 0;
  bool in_epochs = false;
  // The length in steps, given the steps per epoch. 0.07 epochs of 100 steps
  // are 7 steps, although the product is a little more.
  double steps(double steps_per_epoch) const {
    const double steps = in_epochs ? value * steps_per_epoch : value;
    const double whole = std::nearbyint(steps);
    return std::abs(steps - whole) <= 1e-9 * whole ? whole : steps;
  }
};

}  // namespace syncopate
