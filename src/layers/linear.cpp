#include "layers/linear.h"

#include "ops/matmul.h"

namespace syncopate {

Linear::Linear(Registrar& registrar,
               const std::string& name,
               int64_t D,
               int64_t K)
    : Linear(registrar, std::span(&name, 1), D, K) {}

Linear::Linear(Registrar& registrar,
               std::span<const std::string> names,
               int64_t D,
               int64_t K) {
  const auto side_by_side = [&](const char* what, const Shape& shape,
                                Role role) {
    const ParameterRef first =
        registrar.parameter(names.front() + what, shape, role);
    for (const std::string& name : names.subspan(1))
      registrar.parameter(name + what, shape, role);
    return first.offset;
  };
  const int64_t outputs = std::ssize(names) * K;
  weight_ = {side_by_side(".weight", {K, D}, Role::kWeight), {outputs, D}};
  bias_ = {side_by_side(".bias", {K}, Role::kBias), {outputs}};
}

Slot Linear::forward(Walk& walk, const Slot& x) const {
  const Slot y = walk.take(x.dtype, {x.shape[0], bias_.shape[0]});  // (N, K)
  walk.keep_copy(weight_, x);
  walk.keep_copy(bias_, x);
  if (walk.is_running())
    linear_forward(walk.context(), walk.out(y), walk.in(x),
                   walk.weight(weight_), walk.weight(bias_));
  return y;
}

Slot Linear::backward(Walk& walk,
                      const Slot& dy,
                      const Slot& x,
                      const LinearBackward& how) const {
  const Slot dx = walk.take(x.dtype, x.shape, x.layout);  // (N, D)
  if (walk.is_running())
    linear_backward(walk.context(), walk.out(dx), walk.gradient(weight_),
                    how.bias == LinearBackward::Bias::kSum
                        ? walk.gradient(bias_)
                        : Tensor(),
                    walk.in(dy), walk.in(x), walk.weight(weight_),
                    how.addend ? walk.in(*how.addend) : ConstTensor());
  return dx;
}

void Linear::backward_parameters(Walk& walk,
                                 const Slot& dy,
                                 const Slot& x) const {
  if (walk.is_running())
    linear_backward(walk.context(), Tensor(), walk.gradient(weight_),
                    walk.gradient(bias_), walk.in(dy), walk.in(x),
                    walk.weight(weight_));
}

}  // namespace syncopate
