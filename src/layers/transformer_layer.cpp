#include "layers/transformer_layer.h"

namespace syncopate {

TransformerLayer::TransformerLayer(Registrar& registrar,
                                   const std::string& name,
                                   const SelfAttentionShape& attention,
                                   const FeedForwardShape& feed_forward,
                                   Keep keep,
                                   uint64_t place)
    : attention_(registrar, name + ".attention", attention, place),
      feed_forward_(registrar, name, feed_forward, place + 2),
      keep_(keep) {}

int64_t TransformerLayer::macs(int64_t length) const {
  return attention_.macs(length) + feed_forward_.macs(length);
}

Slot TransformerLayer::forward_keeping(Walk& walk, const Slot& x) {
  middle_ = attention_.forward(walk, x);
  const Slot y = feed_forward_.forward(walk, middle_);
  walk.drop(middle_);
  return y;
}

Slot TransformerLayer::forward(Walk& walk, const Slot& x) {
  const Slot y = forward_keeping(walk, x);
  if (keep_ == Keep::kInput && walk.pass() == Pass::kTrain) {
    feed_forward_.forget(walk);
    walk.give_back(middle_);
    attention_.forget(walk);
  }
  return y;
}

Slot TransformerLayer::backward(Walk& walk, const Slot& dy, const Slot& x) {
  if (keep_ == Keep::kInput) walk.give_back(forward_keeping(walk, x));
  const Slot dmiddle = feed_forward_.backward(walk, dy, middle_);
  walk.give_back(middle_);
  return attention_.backward(walk, dmiddle, x);
}

}  // namespace syncopate
