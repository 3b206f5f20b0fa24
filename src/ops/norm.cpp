#include "ops/norm.h"

#include "ops/bodies.h"

namespace syncopate {

// Checks that two activations have the same shape, layout and dtype.
static void check_alike(const ConstTensor& a, const ConstTensor& b) {
  CHECK_MSG(a.shape == b.shape && a.layout == b.layout && a.dtype == b.dtype,
            "{} {} {} and {} {} {}", a.shape.text(), name_of(a.layout),
            name_of(a.dtype), b.shape.text(), name_of(b.layout),
            name_of(b.dtype));
}

// Checks that a mask is one of this activation, and may be there.
static void check_mask(const Context& context,
                       const ConstTensor& mask,
                       const ConstTensor& x,
                       const BatchNormParams& params) {
  CHECK(has_relu_mask(context.device().kind(), x.dtype, x.shape[1]));
  CHECK(params.activation == Activation::kRelu);
  CHECK(mask.dtype == DType::kU8 && 8 * mask.elems() == x.elems());
}

bool has_relu_mask(DeviceKind device, DType dtype, int64_t C) {
  return device == DeviceKind::kCuda && dtype == DType::kBf16 && C % 8 == 0;
}

void batchnorm_forward(Context& context, const BatchNormForwardArgs& args) {
  check_alike(args.y, args.x);
  if (args.z.data != nullptr) check_alike(args.z, args.x);
  CHECK(args.y.data != args.x.data);
  if (args.mask.data != nullptr) {
    CHECK(args.z.data != nullptr);
    check_mask(context, args.mask, args.x, args.params);
  }
  bodies_of(context).batchnorm_forward(context, args);
}

void batchnorm_inference(Context& context, const BatchNormInferenceArgs& args) {
  check_alike(args.y, args.x);
  if (args.z.data != nullptr) check_alike(args.z, args.x);
  bodies_of(context).batchnorm_inference(context, args);
}

void batchnorm_backward(Context& context, const BatchNormBackwardArgs& args) {
  check_alike(args.dx, args.x);
  check_alike(args.dy, args.x);
  if (args.dy2.data != nullptr) check_alike(args.dy2, args.x);
  if (args.dz.data != nullptr) {
    check_alike(args.dz, args.x);
    CHECK(args.dz.data != args.dx.data);
    if (args.mask.data != nullptr)
      check_mask(context, args.mask, args.x, args.params);
    else if (args.params.activation == Activation::kRelu)
      check_alike(args.y, args.x);
  }
  bodies_of(context).batchnorm_backward(context, args);
}

}  // namespace syncopate
