#include "layers/feed_forward.h"

#include "ops/activation.h"

namespace syncopate {

FeedForward::FeedForward(Registrar& registrar,
                         const std::string& name,
                         const FeedForwardShape& shape,
                         uint64_t place)
    : up_(registrar,
          name + ".intermediate.dense",
          shape.hidden,
          shape.intermediate),
      down_(registrar,
            name + ".output.dense",
            shape.intermediate,
            shape.hidden),
      norm_(registrar,
            name + ".output.LayerNorm",
            shape.hidden,
            shape.dropout,
            place) {}

int64_t FeedForward::macs(int64_t length) const {
  return length * (up_.macs() + down_.macs());
}

Slot FeedForward::forward(Walk& walk, const Slot& x) {
  inner_ = up_.forward(walk, x);
  const Slot active = walk.pass() == Pass::kTrain
                          ? walk.take(inner_.dtype, inner_.shape)
                          : inner_;  // (T, I)
  if (walk.is_running())
    gelu_forward(walk.context(), walk.out(active), walk.in(inner_));
  const Slot out = down_.forward(walk, active);
  walk.give_back(active);
  return norm_.forward(walk, out, x);
}

Slot FeedForward::backward(Walk& walk, const Slot& dy, const Slot& x) {
  const Slot dresidual = norm_.backward_residual(walk, dy);
  const Slot active = walk.take(inner_.dtype, inner_.shape);
  if (walk.is_running())
    gelu_forward(walk.context(), walk.out(active), walk.in(inner_));
  const Slot dinner = down_.backward(walk, dy, active);
  walk.give_back(dy);
  walk.give_back(active);
  if (walk.is_running())
    gelu_backward(walk.context(), walk.out(dinner), walk.in(dinner),
                  walk.in(inner_));
  walk.give_back(inner_);
  const Slot dx = up_.backward(walk, dinner, x);
  walk.give_back(dinner);
  add_to(walk, dx, dresidual);
  return dx;
}

void FeedForward::forget(Walk& walk) {
  walk.give_back(inner_);
  norm_.forget(walk);
}

}  // namespace syncopate
