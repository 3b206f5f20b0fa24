#include "layers/pre_activation_block.h"

#include <fmt/core.h>

#include "ops/elementwise.h"

namespace syncopate {

PreActivationBlock::PreActivationBlock(Registrar& registrar,
                                       const std::string& name,
                                       const ImageSize& in,
                                       const BlockShape& shape,
                                       int64_t index)
    : dropout_(shape.dropout, static_cast<uint64_t>(index)) {
  ImageSize size = in;
  int number = 1;
  for (const ConvShape& conv : convolutions(shape)) {
    BatchNorm bn(registrar, fmt::format("{}.bn{}", name, number), size.C,
                 Activation::kRelu);
    Conv2d layer(registrar, fmt::format("{}.conv{}", name, number), size, conv);
    size = layer.out();
    stages_.push_back({bn, layer, {}, {}});
    ++number;
  }
  if (size == in && !shape.is_projected) return;
  projection_ = {Conv2d(registrar, name + ".shortcut.conv", in,
                        ConvShape{shape.outer, 1, shape.stride}),
                 std::nullopt,
                 {}};
  CHECK(projection_->conv.out() == size);
  if (shape.is_projection_normed)
    projection_->bn.emplace(registrar, name + ".shortcut.bn", size.C,
                            Activation::kNone);
}

int64_t PreActivationBlock::macs() const {
  int64_t sum = projection_ ? projection_->conv.macs() : 0;
  for (const Stage& stage : stages_) sum += stage.conv.macs();
  return sum;
}

Slot PreActivationBlock::project(Walk& walk, const Slot& a) {
  projection_->c = projection_->conv.forward(walk, a);  // (N, K, P, Q)
  if (!projection_->bn) return projection_->c;
  const Slot z = projection_->bn->forward(walk, projection_->c);
  walk.drop(projection_->c);
  return z;
}

Slot PreActivationBlock::project_backward(Walk& walk,
                                          const Slot& dy,
                                          const Slot& a) {
  if (projection_->bn) {
    projection_->bn->backward(walk, {dy}, projection_->c);
    walk.give_back(projection_->c);
  }
  const Slot da = projection_->conv.backward(walk, dy, a);
  walk.give_back(dy);
  return da;
}

Slot PreActivationBlock::forward(Walk& walk, const Slot& x) {
  Slot h = x;
  for (Stage& stage : stages_) {
    const bool is_first = &stage == &stages_.front();
    stage.x = h;                          // (N, C, H, W)
    stage.a = stage.bn.forward(walk, h);  // (N, C, H, W)
    if (!is_first) walk.drop(h);
    if (&stage == &stages_.back()) dropout_.apply(walk, stage.a);
    h = stage.conv.forward(walk, stage.a);  // (N, K, P, Q)
    if (!is_first) walk.drop(stage.a);
  }
  y_ = h;
  const Slot& a = stages_.front().a;
  const Slot z = projection_ ? project(walk, a) : x;
  if (walk.is_running())
    add(walk.context(), walk.out(y_), walk.in(y_), walk.in(z));
  if (projection_) walk.give_back(z);  // the sum no longer needs it
  walk.drop(a);
  return y_;
}

GradientSum PreActivationBlock::backward(Walk& walk, const GradientSum& sum) {
  // The gradient of both terms of y, kept for the shortcut.
  const Slot dy = gathered(walk, sum);
  walk.give_back(y_);
  Slot dh = dy;
  for (size_t i = stages_.size(); i-- > 0;) {
    Stage& stage = stages_[i];
    const Slot da = stage.conv.backward(walk, dh, stage.a);
    if (i + 1 == stages_.size())
      dropout_.backward(walk, da);
    else
      walk.give_back(dh);
    dh = da;
    if (i == 0) break;
    stage.bn.backward(walk, {dh}, stage.x);
    walk.give_back(stage.a);
    walk.give_back(stage.x);
  }
  Stage& first = stages_.front();
  GradientSum da{dh};
  if (projection_) da.second = project_backward(walk, dy, first.a);
  first.bn.backward(walk, da, first.x);
  walk.give_back(first.a);
  if (!projection_) add_to(walk, dh, dy);
  return {dh};
}

}  // namespace syncopate
