// Naive swish in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace syncopate::reference {

inline double swish(double x) {
  return x / (1 + std::exp(-x));
}
// Analytic: checked against differences of swish in test_swish.cpp.
inline double swish_derivative(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s + x * s * (1 - s);
}

}  // namespace syncopate::reference
