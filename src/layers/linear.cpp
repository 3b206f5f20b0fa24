#include "layers/linear.h"

#include "ops/matmul.h"

namespace syncopate {

Linear::Linear(Registrar& registrar,
               const std::string& name,
               int64_t D,
               int64_t K)
    : weight_(registrar.parameter(name + ".weight", {K, D}, Role::kWeight)),
      bias_(registrar.parameter(name + ".bias", {K}, Role::kBias)) {}

Slot Linear::forward(Walk& walk, const Slot& x) const {
  const Slot y =
      walk.take(DType::kF32, {walk.samples(), bias_.shape[0]});  // (N, K)
  if (walk.is_running())
    linear_forward(walk.context(), walk.out(y), walk.in(x),
                   walk.parameter(weight_), walk.parameter(bias_));
  return y;
}

Slot Linear::backward(Walk& walk, const Slot& dy, const Slot& x) const {
  const Slot dx = walk.take(x.dtype, x.shape, x.layout);  // (N, D)
  if (walk.is_running())
    linear_backward(walk.context(), walk.out(dx), walk.gradient(weight_),
                    walk.gradient(bias_), walk.in(dy), walk.in(x),
                    walk.parameter(weight_));
  return dx;
}

void Linear::backward_parameters(Walk& walk,
                                 const Slot& dy,
                                 const Slot& x) const {
  if (walk.is_running())
    linear_backward(walk.context(), Tensor(), walk.gradient(weight_),
                    walk.gradient(bias_), walk.in(dy), walk.in(x),
                    walk.parameter(weight_));
}

}  // namespace syncopate
