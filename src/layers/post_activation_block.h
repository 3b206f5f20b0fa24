// The residual block of He et al. 2016a, "Deep residual learning":
//
//   F(x) = bn(conv(... relu(bn(conv(x)))))      y = relu(F(x) + shortcut(x))
//
// The shortcut is x, or bn(conv1x1(x)) if the shape changes. Used by ResNet v1
// (basic and bottleneck), DS-Sync's wide networks, and the bottlenecks of
// Tensor2Tensor and, with biases, of Gluon.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "layers/batch_norm.h"
#include "layers/block.h"

namespace syncopate {

class PostActivationBlock : public Block {
 public:
  // Registers NAME.conv1, NAME.bn1, ..., NAME.shortcut.conv, NAME.shortcut.bn.
  PostActivationBlock(Registrar& registrar,
                      const std::string& name,
                      const ImageSize& in,
                      const BlockShape& shape);

  const ImageSize& out() const override { return stages_.back().conv.out(); }
  int64_t macs() const override;
  Slot forward(Walk& walk, const Slot& x) override;
  GradientSum backward(Walk& walk, const GradientSum& dy) override;

 private:
  struct Stage {
    Conv2d conv;
    BatchNorm bn;
    Slot x, c, y;  // c = conv(x), y = relu(bn(c) [+ shortcut])
  };
  struct Projection {
    Conv2d conv;
    BatchNorm bn;
    Slot c;
  };
  std::vector<Stage> stages_;
  std::optional<Projection> projection_;
};

}  // namespace syncopate
