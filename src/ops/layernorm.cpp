#include "ops/layernorm.h"

#include "ops/bodies.h"

namespace syncopate {
namespace {

template <typename AnyTensor>
void check_like(const AnyTensor& tensor, const ConstTensor& other) {
  CHECK(tensor.shape == other.shape && tensor.dtype == other.dtype);
}

// Checks for fp32 with one number per row or column.
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

void layernorm_forward(Context& context, const LayerNormForwardArgs& args) {
  const ConstTensor& x = args.x;
  CHECK(x.shape.rank() == 2 && args.y.data != args.z.data &&
        args.y.data != x.data);
  check_like(args.y, x);
  if (args.z.data != nullptr) check_like(args.z, x);
  if (args.residual.data != nullptr) check_like(args.residual, x);
  check_vector(args.mean, x.shape[0]);
  check_vector(args.rstd, x.shape[0]);
  check_vector(args.gamma, x.shape[1]);
  check_vector(args.beta, x.shape[1]);
  check_dropout(args.sequences, args.dropout, x.shape[0]);
  bodies_of(context).layernorm_forward(context, args);
}

void layernorm_backward(Context& context, const LayerNormBackwardArgs& args) {
  const ConstTensor& dy = args.dy;
  const Tensor& dresidual = args.dresidual;
  CHECK(dy.shape.rank() == 2);
  CHECK(dresidual.data == nullptr ||
        (dresidual.data != dy.data && dresidual.data != args.dx.data));
  check_like(args.dx, dy);
  check_like(args.z, dy);
  if (dresidual.data != nullptr) check_like(dresidual, dy);
  check_vector(args.dgamma, dy.shape[1]);
  check_vector(args.dbeta, dy.shape[1]);
  if (args.dbias.data != nullptr) check_vector(args.dbias, dy.shape[1]);
  check_vector(args.mean, dy.shape[0]);
  check_vector(args.rstd, dy.shape[0]);
  check_vector(args.gamma, dy.shape[1]);
  check_dropout(args.sequences, args.dropout, dy.shape[0]);
  bodies_of(context).layernorm_backward(context, args);
}

}  // namespace syncopate
