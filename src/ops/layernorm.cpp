#include "ops/layernorm.h"

#include "ops/bodies.h"

namespace syncopate {
namespace {

template <typename AnyTensor>
void check_like(const AnyTensor& tensor, const ConstTensor& other) {
  CHECK(tensor.shape == other.shape && tensor.dtype == other.dtype);
}

// fp32, a number for each row or column.
template <typename AnyTensor>
void check_vector(const AnyTensor& vector, int64_t elems) {
  CHECK(vector.dtype == DType::kF32 && vector.elems() == elems);
}

void check_dropout(const Sequences& sequences,
                   const TokenDropout& dropout,
                   int64_t tokens) {
  CHECK_MSG(dropout.p >= 0 && dropout.p < 1, "p = {}", dropout.p);
  CHECK(dropout.p == 0 || sequences.tokens == tokens);
}

}  // namespace

void layernorm_forward(Context& context,
                       Tensor y,
                       Tensor z,
                       Tensor mean,
                       Tensor rstd,
                       ConstTensor x,
                       ConstTensor residual,
                       ConstTensor gamma,
                       ConstTensor beta,
                       float eps,
                       const Sequences& sequences,
                       const TokenDropout& dropout) {
  CHECK(x.shape.rank() == 2 && y.data != z.data && y.data != x.data);
  check_like(y, x);
  if (z.data != nullptr) check_like(z, x);
  if (residual.data != nullptr) check_like(residual, x);
  check_vector(mean, x.shape[0]);
  check_vector(rstd, x.shape[0]);
  check_vector(gamma, x.shape[1]);
  check_vector(beta, x.shape[1]);
  check_dropout(sequences, dropout, x.shape[0]);
  bodies_of(context).layernorm_forward(context, y, z, mean, rstd, x, residual,
                                       gamma, beta, eps, sequences, dropout);
}

void layernorm_backward(Context& context,
                        Tensor dx,
                        Tensor dresidual,
                        Tensor dgamma,
                        Tensor dbeta,
                        ConstTensor dy,
                        ConstTensor z,
                        ConstTensor mean,
                        ConstTensor rstd,
                        ConstTensor gamma,
                        const Sequences& sequences,
                        const TokenDropout& dropout) {
  CHECK(dy.shape.rank() == 2);
  CHECK(dresidual.data == nullptr ||
        (dresidual.data != dy.data && dresidual.data != dx.data));
  check_like(dx, dy);
  check_like(z, dy);
  if (dresidual.data != nullptr) check_like(dresidual, dy);
  check_vector(dgamma, dy.shape[1]);
  check_vector(dbeta, dy.shape[1]);
  check_vector(mean, dy.shape[0]);
  check_vector(rstd, dy.shape[0]);
  check_vector(gamma, dy.shape[1]);
  check_dropout(sequences, dropout, dy.shape[0]);
  bodies_of(context).layernorm_backward(context, dx, dresidual, dgamma, dbeta,
                                        dy, z, mean, rstd, gamma, sequences,
                                        dropout);
}

}  // namespace syncopate
