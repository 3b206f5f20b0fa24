// A residual block: y = F(x) + shortcut(x).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "layers/conv2d.h"

namespace syncopate {

// The convolutions of F: basic is two 3x3; bottleneck is 1x1 to the inner
// width, 3x3, 1x1 to the outer width. The first 3x3 has the stride unless
// stated otherwise.
struct BlockShape {
  enum class Kind : uint8_t { kBasic, kBottleneck };
  Kind kind = Kind::kBasic;
  int64_t inner = 0;  // channels between the 1x1 (bottleneck only)
  int64_t outer = 0;  // channels of y
  int64_t stride = 1;
  bool is_projected = false;  // project the shortcut even if the shape is
                              // unchanged
  float dropout = 0;  // pre-activation form: before the last convolution
  bool is_first_strided = false;  // bottleneck: the first 1x1 has the stride
  // Post-activation bottleneck: biases in its 1x1 convolutions.
  bool has_biases = false;
  // Pre-activation form: BatchNorm after the projection.
  bool is_projection_normed = false;
};
std::vector<ConvShape> convolutions(const BlockShape& shape);

class Block {
 public:
  virtual ~Block() = default;
  virtual const ImageSize& out() const = 0;
  virtual int64_t macs() const = 0;

  // Returns y, newly taken. The caller keeps x, which in Pass::kTrain must stay
  // alive until backward.
  virtual Slot forward(Walk& walk, const Slot& x) = 0;
  // Gives back dy, y and everything else forward took; returns dx, newly taken,
  // or two gradients of x of which it is the sum.
  virtual GradientSum backward(Walk& walk, const GradientSum& dy) = 0;
};

}  // namespace syncopate
