#include "layers/self_attention.h"

#include <array>

#include "ops/attention.h"

namespace syncopate {
namespace {

std::array<std::string, 3> names_of_parts(const std::string& name) {
  return {name + ".self.query", name + ".self.key", name + ".self.value"};
}

}  // namespace

SelfAttention::SelfAttention(Registrar& registrar,
                             const std::string& name,
                             const SelfAttentionShape& shape,
                             uint64_t place)
    : shape_(shape),
      place_(place),
      qkv_(registrar, names_of_parts(name), shape.hidden, shape.hidden),
      dense_(registrar, name + ".output.dense", shape.hidden, shape.hidden),
      norm_(registrar,
            name + ".output.LayerNorm",
            shape.hidden,
            shape.hidden_dropout,
            place + 1) {}

int64_t SelfAttention::macs(int64_t length) const {
  // Q K^T and P V, in addition to the dense layers.
  return length * (qkv_.macs() + dense_.macs()) +
         2 * length * length * shape_.hidden;
}

Slot SelfAttention::take_kept(Walk& walk, const Slot& x) const {
  const int64_t D = shape_.hidden / shape_.heads;
  if (walk.pass() != Pass::kTrain || shape_.attention_dropout == 0 ||
      !keeps_draws(walk.device(), x.dtype, D))
    return walk.take(DType::kI32, {0});
  if (walk.is_running()) {
    const Sequences& sequences = walk.run().sequences;
    return walk.take(DType::kI32, kept_shape(sequences.count, shape_.heads,
                                             sequences.max_length));
  }
  const int64_t N = x.shape[0] / shape_.max_length;  // a plan has full ones
  return walk.take(DType::kI32, kept_shape(N, shape_.heads, shape_.max_length));
}

Slot SelfAttention::forward(Walk& walk, const Slot& x) {
  const int64_t T = x.shape[0];
  parts_ = qkv_.forward(walk, x);
  seen_ = walk.take(x.dtype, x.shape);
  lse_ = walk.take(DType::kF32, {T, shape_.heads});
  kept_ = take_kept(walk, x);
  if (walk.is_running())
    attention_forward(
        walk.context(),
        {.out = walk.out(seen_),
         .lse = walk.out(lse_),
         .qkv = walk.in(parts_),
         .sequences = walk.run().sequences,
         .heads = shape_.heads,
         .dropout = token_dropout_of(walk, shape_.attention_dropout, place_),
         .kept = walk.out(kept_)});
  walk.drop(parts_);
  walk.drop(lse_);
  walk.drop(kept_);
  const Slot out = dense_.forward(walk, seen_);
  walk.drop(seen_);
  return norm_.forward(walk, out, x);
}

Slot SelfAttention::backward(Walk& walk, const Slot& dy, const Slot& x) {
  const Slot dresidual = norm_.backward_residual(walk, dy, dense_.bias());
  const Slot dseen = dense_.backward(walk, dy, seen_,
                                     {.bias = LinearBackward::Bias::kIsSummed});
  walk.give_back(dy);
  const Slot dparts = walk.take(parts_.dtype, parts_.shape);  // (T, 3 H)
  if (walk.is_running())
    attention_backward(
        walk.context(),
        {.dqkv = walk.out(dparts),
         .dout = walk.in(dseen),
         .qkv = walk.in(parts_),
         .out = walk.in(seen_),
         .lse = walk.in(lse_),
         .sequences = walk.run().sequences,
         .heads = shape_.heads,
         .dropout = token_dropout_of(walk, shape_.attention_dropout, place_),
         .kept = walk.in(kept_)});
  walk.give_back(dseen);
  walk.give_back(seen_);
  walk.give_back(lse_);
  walk.give_back(kept_);
  walk.give_back(parts_);
  const Slot dx = qkv_.backward(walk, dparts, x, {.addend = dresidual});
  walk.give_back(dparts);
  walk.give_back(dresidual);
  return dx;
}

void SelfAttention::forget(Walk& walk) {
  walk.give_back(parts_);
  walk.give_back(seen_);
  walk.give_back(lse_);
  walk.give_back(kept_);
  norm_.forget(walk);
}

}  // namespace syncopate
