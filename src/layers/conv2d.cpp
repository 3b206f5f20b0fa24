#include "layers/conv2d.h"

namespace syncopate {

Conv2d::Conv2d(Registrar& registrar,
               const std::string& name,
               const ImageSize& in,
               const ConvShape& shape)
    : in_(in), shape_(shape) {
  CHECK(shape.window % 2 == 1);
  // Odd windows with half padding accept any image of at least one pixel.
  const ConvSize one{1,
                     in.C,
                     in.H,
                     in.W,
                     shape.K,
                     shape.window,
                     shape.window,
                     shape.stride,
                     shape.window / 2};
  out_ = {shape.K, one.P(), one.Q()};
  weight_ = registrar.parameter(name + ".weight",
                                {shape.K, in.C, shape.window, shape.window},
                                Role::kWeight);
  if (shape.has_bias)
    bias_ = registrar.parameter(name + ".bias", {shape.K}, Role::kBias);
}

int64_t Conv2d::macs() const {
  return weight_.shape.elems() * out_.H * out_.W;
}

ConvSize Conv2d::size(const Walk& walk) const {
  return {walk.samples(), in_.C,         in_.H,
          in_.W,          shape_.K,      shape_.window,
          shape_.window,  shape_.stride, shape_.window / 2};
}

Slot Conv2d::forward(Walk& walk, const Slot& x) const {
  const Slot y = walk.take_image(out_);  // (N, K, P, Q)
  walk.keep_copy(weight_, x);
  if (walk.is_running())
    conv_forward(walk.context(), walk.out(y), walk.in(x), walk.weight(weight_),
                 size(walk));
  return y;
}

Slot Conv2d::backward(Walk& walk, const Slot& dy, const Slot& x) const {
  backward_weights(walk, dy, x);
  const Slot dx = walk.take_image(in_);  // (N, C, H, W)
  if (walk.is_running())
    conv_backward_data(walk.context(), walk.out(dx), walk.in(dy),
                       walk.weight(weight_), size(walk));
  return dx;
}

void Conv2d::backward_weights(Walk& walk, const Slot& dy, const Slot& x) const {
  if (walk.is_running())
    conv_backward_weights(walk.context(), walk.gradient(weight_), walk.in(x),
                          walk.in(dy), size(walk));
}

}  // namespace syncopate
