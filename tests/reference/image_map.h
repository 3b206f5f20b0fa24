// Naive reading of stored images through maps, in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct StoredImages {
  int64_t H, W, C;
  Values pixels;        // (images, H, W, C)
  Values scale, shift;  // (C), of what a pixel stands for
};
// Out (x, y) reads image `image` at (m0 x + m1 y + m2, m3 x + m4 y + m5),
// between pixels the bilinear mean; beside them 0, or what a pixel of 0 stands
// for, or the nearest.
enum class Beside { kZero, kZeroPixel, kNearest };
struct PixelMap {
  Values m;
  int64_t image;
  Beside beside;
};
double read_pixel(const StoredImages& stored,
                  const PixelMap& map,
                  int64_t x,
                  int64_t y,
                  int64_t c);

}  // namespace syncopate::reference
