// Turns stored pixels into a batch: each sample is one stored image seen
// through an affine map, which combines crop, flip, rotation and resizing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"
#include "tensor/image_map.h"

namespace syncopate {

// value = pixel * scale[c] + shift[c], with bytes as 0..255, or floats. `maps`
// (N of them) is in the context's memory; one that names a nonexistent image
// gives NaN on a GPU and is an error on the CPU. (On the CPU, data/ augments
// images itself; this body is the reference for the kernels.)
void gather_images(Context& context,
                   Tensor images,       // (N, C, H, W) fp32 NHWC, assigned
                   ConstTensor pixels,  // (S, H', W', C) u8 or fp32, row-major
                   ConstTensor scale,   // (C) fp32
                   ConstTensor shift,   // (C) fp32
                   const ImageMap* maps);

}  // namespace syncopate
