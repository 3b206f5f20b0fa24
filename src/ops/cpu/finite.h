// Whether all values of a range are finite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "ops/cpu/simd.h"

namespace syncopate::cpu {

inline bool is_finite(const float* from, int64_t begin, int64_t end) {
  constexpr uint32_t kExponent = 0x7F800000;  // all ones: infinity or NaN
  U16 largest = {};
  for_vectors(begin, end, [&](auto lanes, int64_t i) {
    const U16 exponent = reinterpret_cast<U16>(lanes.get(from + i)) & kExponent;
    largest = exponent > largest ? exponent : largest;
  });
  uint32_t all = 0;
  for (int lane = 0; lane < kLanes; ++lane) all = std::max(all, largest[lane]);
  return all != kExponent;
}

}  // namespace syncopate::cpu
