// Crop, flip, rotation and resizing of a stored image as one affine map.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace syncopate {

// Output pixel (x, y) is read at
//   u = m[0] x + m[1] y + m[2]      v = m[3] x + m[4] y + m[5]
// (u along W) of stored image `image`, with bilinear interpolation between the
// four nearest pixels. A pixel outside the image is 0 after normalisation or,
// if is_clamped, the nearest pixel inside.
struct ImageMap {
  float m[6];
  int32_t image;
  int32_t is_clamped;
};

}  // namespace syncopate
