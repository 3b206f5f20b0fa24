// Convolution, padded such that stride 1 preserves the image size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/walk.h"
#include "ops/conv.h"

namespace syncopate {

struct ConvShape {
  int64_t K;       // filters
  int64_t window;  // R = S, odd; padding is window / 2 on every side
  int64_t stride = 1;
  bool has_bias = false;  // Conv2d::bias()
};

class Conv2d {
 public:
  // Registers "NAME.weight" (K, C, R, S) and, with a bias, "NAME.bias" (K).
  Conv2d(Registrar& registrar,
         const std::string& name,
         const ImageSize& in,
         const ConvShape& shape);

  const ImageSize& out() const { return out_; }
  int64_t macs() const;  // multiply-adds per sample
  // Not added here: every convolution with a bias precedes a BatchNorm, which
  // adds it (batch_norm.h). Offset -1: no bias.
  const ParameterRef& bias() const { return bias_; }

  // Returns y, newly taken, from x (N, C, H, W).
  Slot forward(Walk& walk, const Slot& x) const;
  // Adds to the gradient of the weights; returns dx, newly taken.
  Slot backward(Walk& walk, const Slot& dy, const Slot& x) const;
  // Does the same if nothing below needs a gradient.
  void backward_weights(Walk& walk, const Slot& dy, const Slot& x) const;

 private:
  ConvSize size(const Walk& walk) const;
  ImageSize in_, out_;
  ConvShape shape_;
  ParameterRef weight_, bias_;
};

}  // namespace syncopate
