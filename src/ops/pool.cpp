#include "ops/pool.h"

#include "ops/bodies.h"

namespace syncopate {

// Checks y (N, C) fp32 against the image tensor x (N, C, H, W).
static void check_average(const ConstTensor& y, const ConstTensor& x) {
  CHECK(x.shape.rank() == 4 && y.dtype == DType::kF32);
  CHECK((y.shape == Shape{x.shape[0], x.shape[1]}));
}

// Checks y (N, C, P, Q) against x (N, C, H, W), and that every window overlaps
// the image.
static void check_max(const ConstTensor& y,
                      const ConstTensor& argmax,
                      const ConstTensor& x,
                      const PoolSize& s) {
  CHECK(x.shape.rank() == 4 && s.stride >= 1 && s.pad * 2 <= s.window);
  CHECK_MSG(s.window * s.window <= 256, "argmax is one byte");
  const Shape expected = {x.shape[0], x.shape[1],
                          (x.shape[2] + 2 * s.pad - s.window) / s.stride + 1,
                          (x.shape[3] + 2 * s.pad - s.window) / s.stride + 1};
  CHECK_MSG(y.shape == expected, "y is {}", y.shape.text());
  CHECK(y.layout == x.layout && y.dtype == x.dtype);
  CHECK(argmax.shape == y.shape && argmax.dtype == DType::kU8);
}

void global_average_pool_forward(Context& context, Tensor y, ConstTensor x) {
  check_average(y, x);
  bodies_of(context).global_average_pool_forward(context, y, x);
}

void global_average_pool_backward(Context& context, Tensor dx, ConstTensor dy) {
  check_average(dy, dx);
  bodies_of(context).global_average_pool_backward(context, dx, dy);
}

void max_pool_forward(Context& context,
                      Tensor y,
                      Tensor argmax,
                      ConstTensor x,
                      const PoolSize& size) {
  check_max(y, argmax, x, size);
  bodies_of(context).max_pool_forward(context, y, argmax, x, size);
}

void max_pool_backward(Context& context,
                       Tensor dx,
                       ConstTensor dy,
                       ConstTensor argmax,
                       const PoolSize& size) {
  check_max(dy, argmax, dx, size);
  bodies_of(context).max_pool_backward(context, dx, dy, argmax, size);
}

}  // namespace syncopate
