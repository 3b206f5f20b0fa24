#include "layers/pool.h"

namespace syncopate {

MaxPool::MaxPool(const ImageSize& in) : in_(in) {
  const auto pooled = [](int64_t rows) {
    return (rows + 2 * kSize.pad - kSize.window) / kSize.stride + 1;
  };
  out_ = {in.C, pooled(in.H), pooled(in.W)};
}

Slot MaxPool::forward(Walk& walk, const Slot& x) {
  const Slot y = walk.take_image(out_);  // (N, C, P, Q)
  argmax_ = walk.take_image(out_, DType::kU8);
  if (walk.is_running())
    max_pool_forward(walk.context(), walk.out(y), walk.out(argmax_), walk.in(x),
                     kSize);
  walk.drop(argmax_);
  return y;
}

Slot MaxPool::backward(Walk& walk, const Slot& dy) {
  const Slot dx = walk.take_image(in_);  // (N, C, H, W)
  if (walk.is_running())
    max_pool_backward(walk.context(), walk.out(dx), walk.in(dy),
                      walk.in(argmax_), kSize);
  walk.give_back(argmax_);
  return dx;
}

Slot GlobalAveragePool::forward(Walk& walk, const Slot& x) const {
  const Slot y = walk.take(DType::kF32, {walk.samples(), in_.C});  // (N, C)
  if (walk.is_running())
    global_average_pool_forward(walk.context(), walk.out(y), walk.in(x));
  return y;
}

Slot GlobalAveragePool::backward(Walk& walk, const Slot& dy) const {
  const Slot dx = walk.take_image(in_);  // (N, C, H, W)
  if (walk.is_running())
    global_average_pool_backward(walk.context(), walk.out(dx), walk.in(dy));
  return dx;
}

}  // namespace syncopate
