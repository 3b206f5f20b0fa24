// The residual block of He et al. 2016b, "Identity mappings in deep residual
// networks", with the dropout of Zagoruyko & Komodakis 2016:
//
//   a = relu(bn(x))     F(x) = conv(dropout(relu(bn(... conv(a)))))
//   y = F(x) + shortcut
//
// The shortcut is x, or conv1x1(a) without BatchNorm where the shape changes.
// ResNet v2, basic and bottleneck, and Zagoruyko's wide networks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "layers/batch_norm.h"
#include "layers/block.h"
#include "layers/dropout.h"

namespace syncopate {

class PreActivationBlock : public Block {
 public:
  // Registers NAME.bn1, NAME.conv1, ..., NAME.shortcut.conv. `index` tells
  // apart the blocks of a network (for dropout).
  PreActivationBlock(Registrar& registrar,
                     const std::string& name,
                     const ImageSize& in,
                     const BlockShape& shape,
                     int64_t index);

  const ImageSize& out() const override { return stages_.back().conv.out(); }
  int64_t macs() const override;
  Slot forward(Walk& walk, const Slot& x) override;
  Slot backward(Walk& walk, const Slot& dy) override;

 private:
  struct Stage {
    BatchNorm bn;
    Conv2d conv;
    Slot x, a;  // a = relu(bn(x)); what follows is conv(a)
  };
  std::vector<Stage> stages_;
  std::optional<Conv2d> projection_;
  Dropout dropout_;
  Slot y_;
};

}  // namespace syncopate
