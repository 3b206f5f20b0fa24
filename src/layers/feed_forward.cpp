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

// Returns gelu(inner_), newly taken.
Slot FeedForward::activate(Walk& walk) const {
  const Slot active = walk.take(inner_.dtype, inner_.shape);  // (T, I)
  if (walk.is_running())
    gelu_forward(walk.context(), walk.out(active), walk.in(inner_));
  return active;
}

Slot FeedForward::forward(Walk& walk, const Slot& x) {
  inner_ = up_.forward(walk, x);
  if (walk.pass() == Pass::kTrain) {
    active_ = activate(walk);
  } else {
    active_ = inner_;
    if (walk.is_running())
      gelu_forward(walk.context(), walk.out(active_), walk.in(inner_));
  }
  const Slot out = down_.forward(walk, active_);
  if (walk.pass() != Pass::kTrain || !walk.is_on_gpu()) walk.give_back(active_);
  return norm_.forward(walk, out, x);
}

Slot FeedForward::backward(Walk& walk, const Slot& dy, const Slot& x) {
  using Bias = LinearBackward::Bias;
  const Slot dresidual = norm_.backward_residual(walk, dy, down_.bias());
  if (!walk.is_on_gpu()) active_ = activate(walk);
  const Slot dinner =
      down_.backward(walk, dy, active_, {.bias = Bias::kIsSummed});
  walk.give_back(dy);
  walk.give_back(active_);
  if (walk.is_running())
    gelu_backward(walk.context(), walk.out(dinner), walk.in(dinner),
                  walk.in(inner_), walk.gradient(up_.bias()));
  walk.give_back(inner_);
  const Slot dx = up_.backward(walk, dinner, x,
                               {.bias = Bias::kIsSummed, .addend = dresidual});
  walk.give_back(dinner);
  walk.give_back(dresidual);
  return dx;
}

void FeedForward::forget(Walk& walk) {
  walk.give_back(inner_);
  if (walk.is_on_gpu()) walk.give_back(active_);
  norm_.forget(walk);
}

}  // namespace syncopate
