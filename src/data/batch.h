// A mini-batch of images on the host, ready for a network.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/tensor.h"

namespace syncopate {

// What one sample looks like.
struct ImageSpec {
  int64_t C = 0, H = 0, W = 0;
  int64_t classes = 0;
  bool operator==(const ImageSpec&) const = default;
};

struct Batch {
  int64_t samples = 0;  // N, may be less than planned at the end of a pass
  ConstTensor images;   // (N, C, H, W) fp32 NHWC, normalised
  ConstTensor labels;   // (N) i32
};

}  // namespace syncopate
