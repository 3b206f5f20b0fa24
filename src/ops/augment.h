// Stored pixels to a batch: each sample of the batch is one stored image seen
// through an affine map, which crop, flip, rotation and resizing all are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"
#include "tensor/image_map.h"

namespace syncopate {

// value = pixel * scale[c] + shift[c] of bytes as 0..255 or of floats.
// `maps` (N of them) lies in the context's memory; one that names an image that
// is not there gives NaN on a GPU, and is refused on the CPU. (The CPU feeds
// itself from data/; its body is what kernels are held against.)
void gather_images(Context& context,
                   Tensor images,       // (N, C, H, W) fp32 NHWC, assigned
                   ConstTensor pixels,  // (S, H', W', C) u8 or fp32, row-major
                   ConstTensor scale,   // (C) fp32
                   ConstTensor shift,   // (C) fp32
                   const ImageMap* maps);

}  // namespace syncopate
