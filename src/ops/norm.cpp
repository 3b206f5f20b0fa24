#include "ops/norm.h"

#include "ops/bodies.h"

namespace syncopate {

// Two activations of one call: same shape, layout and dtype.
static void check_alike(const ConstTensor& a, const ConstTensor& b) {
  CHECK_MSG(a.shape == b.shape && a.layout == b.layout && a.dtype == b.dtype,
            "{} {} {} and {} {} {}", a.shape.text(), name_of(a.layout),
            name_of(a.dtype), b.shape.text(), name_of(b.layout),
            name_of(b.dtype));
}

void batchnorm_forward(Context& context,
                       Tensor y,
                       Tensor mean,
                       Tensor rstd,
                       Tensor running_mean,
                       Tensor running_var,
                       ConstTensor x,
                       ConstTensor gamma,
                       ConstTensor beta,
                       ConstTensor z,
                       const BatchNormParams& params) {
  check_alike(y, x);
  if (z.data != nullptr) check_alike(z, x);
  CHECK(y.data != x.data);
  bodies_of(context).batchnorm_forward(context, y, mean, rstd, running_mean,
                                       running_var, x, gamma, beta, z, params);
}

void batchnorm_inference(Context& context,
                         Tensor y,
                         ConstTensor x,
                         ConstTensor running_mean,
                         ConstTensor running_var,
                         ConstTensor gamma,
                         ConstTensor beta,
                         ConstTensor z,
                         const BatchNormParams& params) {
  check_alike(y, x);
  if (z.data != nullptr) check_alike(z, x);
  bodies_of(context).batchnorm_inference(context, y, x, running_mean,
                                         running_var, gamma, beta, z, params);
}

void batchnorm_backward(Context& context,
                        Tensor dx,
                        Tensor dz,
                        Tensor dgamma,
                        Tensor dbeta,
                        ConstTensor dy,
                        ConstTensor x,
                        ConstTensor y,
                        ConstTensor gamma,
                        ConstTensor beta,
                        ConstTensor mean,
                        ConstTensor rstd,
                        const BatchNormParams& params) {
  check_alike(dx, x);
  check_alike(dy, x);
  if (dz.data != nullptr) {
    check_alike(dz, x);
    CHECK(dz.data != dx.data);
  }
  if (params.activation == Activation::kRelu) check_alike(y, x);
  bodies_of(context).batchnorm_backward(context, dx, dz, dgamma, dbeta, dy, x,
                                        y, gamma, beta, mean, rstd, params);
}

}  // namespace syncopate
