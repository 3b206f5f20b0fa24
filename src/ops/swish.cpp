#include "ops/swish.h"

#include "ops/bodies.h"

namespace syncopate {

void swish_forward(Context& context, Tensor y, ConstTensor x) {
  CHECK(x.shape == y.shape && x.layout == y.layout && x.dtype == y.dtype);
  bodies_of(context).swish_forward(context, y, x);
}

void swish_backward(Context& context,
                    Tensor dx,
                    ConstTensor dy,
                    ConstTensor x) {
  CHECK(dy.shape == dx.shape && x.shape == dx.shape);
  CHECK(dy.layout == dx.layout && x.layout == dx.layout);
  CHECK(dy.dtype == dx.dtype && x.dtype == dx.dtype);
  bodies_of(context).swish_backward(context, dx, dy, x);
}

}  // namespace syncopate
