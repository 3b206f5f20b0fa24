// Crop, flip, rotation and resizing of a stored image as one affine map.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace syncopate {

// What is read outside the image: 0 after normalisation, which is the mean
// colour if images are normalised by their mean; 0 before it; the nearest pixel
// inside.
enum class Outside : int32_t { kMean, kBlack, kNearest };

// Output pixel (x, y) is read at
//   u = m[0] x + m[1] y + m[2]      v = m[3] x + m[4] y + m[5]
// (u along W) of stored image `image`, with bilinear interpolation between the
// four nearest pixels.
struct ImageMap {
  float m[6];
  int32_t image;
  Outside outside;
};

}  // namespace syncopate
