// How a stored image is seen: crop, flip, rotation and resizing as one map.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace syncopate {

// Pixel (x, y) of what is seen is read at
//   u = m[0] x + m[1] y + m[2]      v = m[3] x + m[4] y + m[5]
// (u along W) of stored image `image`, bilinearly between the four pixels
// around it. A pixel outside the image is 0 after normalisation, or where
// is_clamped the nearest one inside.
struct ImageMap {
  float m[6];
  int32_t image;
  int32_t is_clamped;
};

}  // namespace syncopate
