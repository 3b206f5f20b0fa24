#include "ops/activation.h"

#include "ops/bodies.h"

namespace syncopate {

void gelu_forward(Context& context, Tensor y, ConstTensor x) {
  CHECK(x.shape == y.shape && x.layout == y.layout && x.dtype == y.dtype);
  bodies_of(context).gelu_forward(context, y, x);
}

void gelu_backward(Context& context,
                   Tensor dx,
                   ConstTensor dy,
                   ConstTensor x,
                   Tensor dbias) {
  CHECK(dy.shape == dx.shape && x.shape == dx.shape);
  CHECK(dy.layout == dx.layout && x.layout == dx.layout);
  CHECK(dy.dtype == dx.dtype && x.dtype == dx.dtype);
  CHECK(dbias.data == nullptr ||
        (x.shape.rank() == 2 && x.layout == Layout::kRowMajor &&
         dbias.elems() == x.shape[1] && dbias.dtype == DType::kF32));
  bodies_of(context).gelu_backward(context, dx, dy, x, dbias);
}

}  // namespace syncopate
