// Optimizer state that no longer receives gradients would decay to subnormal
// numbers and stay there, on which processors are many times slower.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "ops/cpu/simd.h"

namespace syncopate::cpu {

[[gnu::always_inline]] inline F16 zero_if_subnormal(F16 value) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  return (value < kLeast) & (value > -kLeast) ? F16{} : value;
}

}  // namespace syncopate::cpu
