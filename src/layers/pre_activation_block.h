// The residual block of He et al. 2016b, "Identity mappings in deep residual
// networks", with the dropout of Zagoruyko & Komodakis 2016:
//
//   a = relu(bn(x))     F(x) = conv(dropout(relu(bn(... conv(a)))))
//   y = F(x) + shortcut
//
// The shortcut is x, or conv1x1(a) if the shape changes: without BatchNorm in
// ResNet v2 (basic and bottleneck) and Zagoruyko's wide networks, with it in
// Tensor2Tensor's basic block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "layers/batch_norm.h"
#include "layers/block.h"
#include "layers/dropout.h"

namespace syncopate {

class PreActivationBlock : public Block {
 public:
  // Registers NAME.bn1, NAME.conv1, ..., NAME.shortcut.conv, NAME.shortcut.bn.
  // `index` distinguishes the blocks of a network (for dropout).
  PreActivationBlock(Registrar& registrar,
                     const std::string& name,
                     const ImageSize& in,
                     const BlockShape& shape,
                     int64_t index);

  const ImageSize& out() const override { return stages_.back().conv.out(); }
  int64_t macs() const override;
  Slot forward(Walk& walk, const Slot& x) override;
  GradientSum backward(Walk& walk, const GradientSum& dy) override;

 private:
  struct Stage {
    BatchNorm bn;
    Conv2d conv;
    Slot x, a;  // a = relu(bn(x)); conv(a) follows
  };
  struct Projection {
    Conv2d conv;
    std::optional<BatchNorm> bn;
    Slot c;  // conv(a), kept for bn
  };
  Slot project(Walk& walk, const Slot& a);
  // Takes over dy's memory. Returns da, newly taken.
  Slot project_backward(Walk& walk, const Slot& dy, const Slot& a);
  std::vector<Stage> stages_;
  std::optional<Projection> projection_;
  Dropout dropout_;
  Slot y_;
};

}  // namespace syncopate
