#include "layers/batch_norm.h"

namespace syncopate {

BatchNorm::BatchNorm(Registrar& registrar,
                     const std::string& name,
                     int64_t C,
                     Activation activation)
    : C_(C),
      activation_(activation),
      gamma_(registrar.parameter(name + ".weight", {C}, Role::kBatchNorm)),
      beta_(registrar.parameter(name + ".bias", {C}, Role::kBatchNorm)),
      running_mean_(registrar.buffer(name + ".running_mean", {C})),
      running_var_(registrar.buffer(name + ".running_var", {C})) {}

Slot BatchNorm::forward(Walk& walk, const Slot& x) {
  return forward_with(walk, x, nullptr);
}

Slot BatchNorm::forward_residual(Walk& walk, const Slot& x, const Slot& z) {
  return forward_with(walk, x, &z);
}

Slot BatchNorm::forward_with(Walk& walk, const Slot& x, const Slot* z) {
  const Slot y = walk.take(x.dtype, x.shape, x.layout);  // (N, C, H, W)
  mean_ = walk.take(DType::kF32, {C_});
  rstd_ = walk.take(DType::kF32, {C_});
  walk.drop(mean_);
  walk.drop(rstd_);
  if (!walk.is_running()) return y;
  BatchNormParams params;
  params.momentum = walk.run().batchnorm_momentum;
  params.activation = activation_;
  const ConstTensor residual = z != nullptr ? walk.in(*z) : ConstTensor();
  if (walk.pass() == Pass::kEvaluate)
    batchnorm_inference(walk.context(), walk.out(y), walk.in(x),
                        walk.buffer(running_mean_), walk.buffer(running_var_),
                        walk.parameter(gamma_), walk.parameter(beta_), residual,
                        params);
  else
    batchnorm_forward(
        walk.context(), walk.out(y), walk.out(mean_), walk.out(rstd_),
        walk.buffer(running_mean_), walk.buffer(running_var_), walk.in(x),
        walk.parameter(gamma_), walk.parameter(beta_), residual, params);
  return y;
}

void BatchNorm::backward(Walk& walk,
                         const Slot& dy,
                         const Slot& x,
                         const Slot& y) {
  backward_into(walk, dy, nullptr, dy, x, y);
}

Slot BatchNorm::backward_residual(Walk& walk,
                                  const Slot& dy,
                                  const Slot& x,
                                  const Slot& y) {
  const Slot dx = walk.take(x.dtype, x.shape, x.layout);  // (N, C, H, W)
  backward_into(walk, dx, &dy, dy, x, y);
  return dx;
}

void BatchNorm::backward_into(Walk& walk,
                              const Slot& dx,
                              const Slot* dz,
                              const Slot& dy,
                              const Slot& x,
                              const Slot& y) {
  if (walk.is_running()) {
    BatchNormParams params;
    params.activation = activation_;
    batchnorm_backward(
        walk.context(), walk.out(dx), dz != nullptr ? walk.out(*dz) : Tensor(),
        walk.gradient(gamma_), walk.gradient(beta_), walk.in(dy), walk.in(x),
        activation_ == Activation::kRelu ? walk.in(y) : ConstTensor(),
        walk.parameter(gamma_), walk.parameter(beta_), walk.in(mean_),
        walk.in(rstd_), params);
  }
  walk.give_back(mean_);
  walk.give_back(rstd_);
}

}  // namespace syncopate
