// Stored pixels to a batch: each sample of the batch is one stored image seen
// through an affine map, which crop, flip, rotation and resizing all are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate {

// Pixel (x, y) of the output is read at
//   u = m[0] x + m[1] y + m[2]      v = m[3] x + m[4] y + m[5]
// (u along W) of stored image `image`, bilinearly between the four pixels
// around it. A pixel outside the image is 0 after normalisation, or where
// is_clamped the nearest one inside.
struct ImageMap {
  float m[6];
  int32_t image;
  int32_t is_clamped;
};

// value = pixel * scale[c] + shift[c] of bytes as 0..255 or of floats.
// `maps` (N of them) lies in the context's memory.
void gather_images(Context& context,
                   Tensor images,       // (N, C, H, W) fp32 NHWC, assigned
                   ConstTensor pixels,  // (S, H', W', C) u8 or fp32, row-major
                   ConstTensor scale,   // (C) fp32
                   ConstTensor shift,   // (C) fp32
                   const ImageMap* maps);

}  // namespace syncopate
