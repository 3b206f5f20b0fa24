#include "layers/layer_norm.h"

#include "ops/layernorm.h"

namespace syncopate {
namespace {

constexpr float kEpsilon = 1e-12f;  // as in BERT

}  // namespace

TokenDropout token_dropout_of(const Walk& walk, float p, uint64_t place) {
  if (walk.pass() != Pass::kTrain) return {};
  // An odd multiplier spreads the place over the seed's bits, so no two places
  // of a network share a mask.
  constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
  return {p, walk.run().dropout_key, (place + 1) * kSpread};
}

LayerNorm::LayerNorm(Registrar& registrar,
                     const std::string& name,
                     int64_t H,
                     float dropout,
                     uint64_t place)
    : p_(dropout),
      place_(place),
      gamma_(registrar.parameter(name + ".weight", {H}, Role::kLayerNorm)),
      beta_(registrar.parameter(name + ".bias", {H}, Role::kLayerNorm)) {}

Slot LayerNorm::forward(Walk& walk,
                        const Slot& x,
                        const std::optional<Slot>& residual) {
  const Slot y = walk.take(x.dtype, x.shape);  // (T, H)
  mean_ = walk.take(DType::kF32, {x.shape[0]});
  rstd_ = walk.take(DType::kF32, {x.shape[0]});
  z_ = x;
  if (walk.is_running())
    layernorm_forward(
        walk.context(),
        {.y = walk.out(y),
         .z = walk.pass() == Pass::kTrain ? walk.out(z_) : Tensor(),
         .mean = walk.out(mean_),
         .rstd = walk.out(rstd_),
         .x = walk.in(x),
         .residual = residual ? walk.in(*residual) : ConstTensor(),
         .gamma = walk.parameter(gamma_),
         .beta = walk.parameter(beta_),
         .epsilon = kEpsilon,
         .sequences = walk.run().sequences,
         .dropout = token_dropout_of(walk, p_, place_)});
  if (walk.pass() != Pass::kTrain) forget(walk);
  return y;
}

void LayerNorm::backward(Walk& walk, const Slot& dy) {
  backward_into(walk, dy, Tensor(), Tensor());
}

Slot LayerNorm::backward_residual(Walk& walk,
                                  const Slot& dy,
                                  const ParameterRef& bias) {
  const Slot dresidual = walk.take(dy.dtype, dy.shape);  // (T, H)
  if (walk.is_running())
    backward_into(walk, dy, walk.out(dresidual), walk.gradient(bias));
  else
    backward_into(walk, dy, Tensor(), Tensor());
  return dresidual;
}

void LayerNorm::backward_into(Walk& walk,
                              const Slot& dy,
                              const Tensor& dresidual,
                              const Tensor& dbias) {
  if (walk.is_running())
    layernorm_backward(walk.context(),
                       {.dx = walk.out(dy),
                        .dresidual = dresidual,
                        .dgamma = walk.gradient(gamma_),
                        .dbeta = walk.gradient(beta_),
                        .dbias = dbias,
                        .dy = walk.in(dy),
                        .z = walk.in(z_),
                        .mean = walk.in(mean_),
                        .rstd = walk.in(rstd_),
                        .gamma = walk.parameter(gamma_),
                        .sequences = walk.run().sequences,
                        .dropout = token_dropout_of(walk, p_, place_)});
  forget(walk);
}

void LayerNorm::forget(Walk& walk) {
  walk.give_back(mean_);
  walk.give_back(rstd_);
  walk.give_back(z_);
}

}  // namespace syncopate
