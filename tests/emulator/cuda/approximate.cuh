// The twin of kernels/cuda/approximate.cuh: as far from the exact values as PTX
// allows, upwards and downwards, so that no test passes by luck.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "cuda/platform.h"

namespace syncopate::cuda {

inline float approximate_exp2(float x) {
  const float y = std::exp2(x) * (1 + 0x1p-22f);
  return y < 0x1p-126f ? 0.0f : y;  // propagates NaN
}
inline float approximate_reciprocal(float x) {
  const float y = (1 - 0x1p-22f) / x;
  return std::fabs(y) < 0x1p-126f ? std::copysign(0.0f, y) : y;
}

inline float lesser_or_nan(float a, float b) {
  return std::isnan(a) || a < b ? a : b;
}

}  // namespace syncopate::cuda
