#include "layers/post_activation_block.h"

#include <fmt/core.h>

namespace syncopate {

PostActivationBlock::PostActivationBlock(Registrar& registrar,
                                         const std::string& name,
                                         const ImageSize& in,
                                         const BlockShape& shape) {
  ImageSize size = in;
  int number = 1;
  for (const ConvShape& conv : convolutions(shape)) {
    Conv2d layer(registrar, fmt::format("{}.conv{}", name, number), size, conv);
    size = layer.out();
    stages_.push_back(
        {layer,
         BatchNorm(registrar, fmt::format("{}.bn{}", name, number), size.C,
                   Activation::kRelu, layer.bias()),
         {},
         {},
         {}});
    ++number;
  }
  if (size == in && !shape.is_projected) return;
  Conv2d conv(registrar, name + ".shortcut.conv", in,
              {shape.outer, 1, shape.stride});
  projection_ = {
      conv,
      BatchNorm(registrar, name + ".shortcut.bn", size.C, Activation::kNone),
      {}};
  CHECK(conv.out() == size);
}

int64_t PostActivationBlock::macs() const {
  int64_t sum = projection_ ? projection_->conv.macs() : 0;
  for (const Stage& stage : stages_) sum += stage.conv.macs();
  return sum;
}

Slot PostActivationBlock::forward(Walk& walk, const Slot& x) {
  Slot h = x;
  for (Stage& stage : stages_) {
    const bool is_first = &stage == &stages_.front();
    const bool is_last = &stage == &stages_.back();
    stage.x = h;                            // (N, C, H, W)
    stage.c = stage.conv.forward(walk, h);  // (N, K, P, Q)
    if (!is_first) walk.drop(h);
    if (!is_last) {
      stage.y = stage.bn.forward(walk, stage.c);
    } else if (projection_) {
      projection_->c = projection_->conv.forward(walk, x);
      const Slot z = projection_->bn.forward(walk, projection_->c);
      walk.drop(projection_->c);
      stage.y = stage.bn.forward(walk, stage.c, z);
      walk.give_back(z);  // the sum no longer needs it
    } else {
      stage.y = stage.bn.forward(walk, stage.c, x);
    }
    walk.drop(stage.c);
    h = stage.y;
  }
  return h;
}

GradientSum PostActivationBlock::backward(Walk& walk, const GradientSum& dy) {
  // dy's first term becomes the gradient of both terms of y, kept for the
  // shortcut.
  Stage& last = stages_.back();
  Slot dh = last.bn.backward_residual(walk, dy, last.c, last.y);
  walk.give_back(last.y);
  walk.give_back(last.c);
  for (size_t i = stages_.size(); i-- > 0;) {
    const Slot dx = stages_[i].conv.backward(walk, dh, stages_[i].x);
    walk.give_back(dh);
    dh = dx;
    if (i == 0) break;
    Stage& below = stages_[i - 1];
    below.bn.backward(walk, {dh}, below.c);
    walk.give_back(below.y);
    walk.give_back(below.c);
  }
  if (!projection_) return {dh, dy.first};
  projection_->bn.backward(walk, {dy.first}, projection_->c);
  walk.give_back(projection_->c);
  const Slot dshortcut =
      projection_->conv.backward(walk, dy.first, stages_.front().x);
  walk.give_back(dy.first);
  return {dh, dshortcut};
}

}  // namespace syncopate
