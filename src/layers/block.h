// A residual block: y = F(x) + shortcut(x), as one step of a network's walk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/conv2d.h"

namespace syncopate {

// The convolutions of F: basic is two 3x3; bottleneck is 1x1 to the inner
// width, 3x3, 1x1 to the outer width. The stride sits on the first 3x3 unless
// said otherwise.
struct BlockShape {
  enum class Kind : uint8_t { kBasic, kBottleneck };
  Kind kind = Kind::kBasic;
  int64_t inner = 0;  // channels between the 1x1 (bottleneck only)
  int64_t outer = 0;  // channels of y
  int64_t stride = 1;
  bool is_projected = false;  // the shortcut, even where the shape stays
  float dropout = 0;  // pre-activation form: before the last convolution
  bool is_first_strided = false;  // bottleneck: the stride on the first 1x1
  // Bottleneck of the post-activation form: biases in its 1x1 convolutions.
  bool has_biases = false;
  // Pre-activation form: BatchNorm behind the projection.
  bool is_projection_normed = false;
};
std::vector<ConvShape> convolutions(const BlockShape& shape);

class Block {
 public:
  virtual ~Block() = default;
  virtual const ImageSize& out() const = 0;
  virtual int64_t macs() const = 0;

  // y, newly taken. x stays the caller's, and in Pass::kTrain must stay alive
  // until backward.
  virtual Slot forward(Walk& walk, const Slot& x) = 0;
  // Gives back dy, y and everything else forward took; dx, newly taken.
  virtual Slot backward(Walk& walk, const Slot& dy) = 0;
};

}  // namespace syncopate
