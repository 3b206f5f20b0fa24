#include "layers/batch_norm.h"

#include "ops/elementwise.h"

namespace syncopate {

BatchNorm::BatchNorm(Registrar& registrar,
                     const std::string& name,
                     int64_t C,
                     Activation activation,
                     const ParameterRef& bias)
    : C_(C),
      activation_(activation),
      gamma_(registrar.parameter(name + ".weight", {C}, Role::kBatchNorm)),
      beta_(registrar.parameter(name + ".bias", {C}, Role::kBatchNorm)),
      running_mean_(registrar.buffer(name + ".running_mean", {C})),
      running_var_(registrar.buffer(name + ".running_var", {C})),
      bias_(bias) {}

Slot BatchNorm::forward(Walk& walk,
                        const Slot& x,
                        const std::optional<Slot>& z) {
  const Slot y = walk.take(x.dtype, x.shape, x.layout);  // (N, C, H, W)
  mean_ = walk.take(DType::kF32, {C_});
  rstd_ = walk.take(DType::kF32, {C_});
  walk.drop(mean_);
  walk.drop(rstd_);
  mask_.reset();
  if (z && walk.pass() == Pass::kTrain && activation_ == Activation::kRelu &&
      has_relu_mask(walk.device(), x.dtype, C_))
    mask_ = walk.take(DType::kU8, {y.shape.elems() / 8});
  if (!walk.is_running()) return y;
  const BatchNormParams params{.momentum = walk.run().batchnorm_momentum,
                               .activation = activation_};
  const ConstTensor residual = z ? walk.in(*z) : ConstTensor();
  if (walk.pass() == Pass::kEvaluate) {
    batchnorm_inference(walk.context(),
                        {.y = walk.out(y),
                         .x = walk.in(x),
                         .running_mean = running_mean_of_x(walk),
                         .running_var = walk.buffer(running_var_),
                         .gamma = walk.parameter(gamma_),
                         .beta = walk.parameter(beta_),
                         .z = residual,
                         .params = params});
    return y;
  }
  batchnorm_forward(walk.context(),
                    {.y = walk.out(y),
                     .mean = walk.out(mean_),
                     .rstd = walk.out(rstd_),
                     .running_mean = walk.buffer(running_mean_),
                     .running_var = walk.buffer(running_var_),
                     .x = walk.in(x),
                     .gamma = walk.parameter(gamma_),
                     .beta = walk.parameter(beta_),
                     .z = residual,
                     .mask = mask_ ? walk.out(*mask_) : Tensor(),
                     .params = params});
  // mean(x + b) = mean(x) + b
  if (bias_.offset >= 0)
    axpy(walk.context(), {walk.buffer(running_mean_).f32(), size_t(C_)},
         params.momentum, {walk.parameter(bias_).f32(), size_t(C_)});
  return y;
}

ConstTensor BatchNorm::running_mean_of_x(Walk& walk) const {
  const Tensor running = walk.buffer(running_mean_);
  if (bias_.offset < 0) return running;
  const ConstTensor bias = walk.parameter(bias_);
  const Tensor mean = walk.out(mean_);
  add(walk.context(), mean, running, bias);
  axpy(walk.context(), {mean.f32(), size_t(C_)}, -2, {bias.f32(), size_t(C_)});
  return mean;
}

Slot BatchNorm::backward(Walk& walk, const GradientSum& dy, const Slot& x) {
  backward_into(walk, dy.first, nullptr, dy, x, nullptr);
  if (dy.second) walk.give_back(*dy.second);
  return dy.first;
}

Slot BatchNorm::backward_residual(Walk& walk,
                                  const GradientSum& dy,
                                  const Slot& x,
                                  const Slot& y) {
  const Slot dx = dy.second
                      ? *dy.second
                      : walk.take(x.dtype, x.shape, x.layout);  // (N, C, H, W)
  backward_into(walk, dx, &dy.first, dy, x,
                activation_ == Activation::kRelu && !mask_ ? &y : nullptr);
  if (mask_) walk.give_back(*mask_);
  return dx;
}

// dz and y: null if there is none to write or read.
void BatchNorm::backward_into(Walk& walk,
                              const Slot& dx,
                              const Slot* dz,
                              const GradientSum& dy,
                              const Slot& x,
                              const Slot* y) {
  if (walk.is_running())
    batchnorm_backward(walk.context(),
                       {.dx = walk.out(dx),
                        .dz = dz != nullptr ? walk.out(*dz) : Tensor(),
                        .dgamma = walk.gradient(gamma_),
                        .dbeta = walk.gradient(beta_),
                        .dy = walk.in(dy.first),
                        .dy2 = dy.second ? walk.in(*dy.second) : ConstTensor(),
                        .x = walk.in(x),
                        .y = y != nullptr ? walk.in(*y) : ConstTensor(),
                        .mask = mask_ ? walk.in(*mask_) : ConstTensor(),
                        .gamma = walk.parameter(gamma_),
                        .beta = walk.parameter(beta_),
                        .mean = walk.in(mean_),
                        .rstd = walk.in(rstd_),
                        .params = {.activation = activation_}});
  walk.give_back(mean_);
  walk.give_back(rstd_);
}

}  // namespace syncopate
