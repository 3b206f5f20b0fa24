#include "layers/input_norm.h"

#include <vector>

#include "ops/norm.h"

namespace syncopate {

InputNorm::InputNorm(Registrar& registrar, const std::string& name, int64_t C)
    : C_(C),
      running_mean_(registrar.buffer(name + ".running_mean", {C})),
      running_var_(registrar.buffer(name + ".running_var", {C})) {}

void InputNorm::plan(Context& context) {
  scale_ = {context.device(), context.stream(), C_};
  shift_ = {context.device(), context.stream(), C_};
  scale_.assign(std::vector<float>(C_, 1.f));
  shift_.assign(std::vector<float>(C_, 0.f));
}

Slot InputNorm::forward(Walk& walk, const Slot& x) const {
  const Slot y = walk.take(DType::kF32, x.shape, x.layout);  // (N, C, H, W)
  const Slot mean = walk.take(DType::kF32, {C_});
  const Slot rstd = walk.take(DType::kF32, {C_});
  walk.give_back(mean);
  walk.give_back(rstd);
  if (!walk.is_running()) return y;
  const ConstTensor gamma =
      make_const_tensor(scale_.data(), DType::kF32, Shape{C_});
  const ConstTensor beta =
      make_const_tensor(shift_.data(), DType::kF32, Shape{C_});
  if (walk.pass() == Pass::kEvaluate)
    batchnorm_inference(walk.context(),
                        {.y = walk.out(y),
                         .x = walk.in(x),
                         .running_mean = walk.buffer(running_mean_),
                         .running_var = walk.buffer(running_var_),
                         .gamma = gamma,
                         .beta = beta});
  else
    batchnorm_forward(walk.context(),
                      {.y = walk.out(y),
                       .mean = walk.out(mean),
                       .rstd = walk.out(rstd),
                       .running_mean = walk.buffer(running_mean_),
                       .running_var = walk.buffer(running_var_),
                       .x = walk.in(x),
                       .gamma = gamma,
                       .beta = beta,
                       .params = {.momentum = walk.run().batchnorm_momentum}});
  return y;
}

}  // namespace syncopate
