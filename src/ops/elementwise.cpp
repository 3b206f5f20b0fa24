#include "ops/elementwise.h"

#include "ops/cpu/cpu_ops.h"
#include "ops/dispatch.h"

namespace syncopate {

void add(Context& context, Tensor y, ConstTensor x, ConstTensor z) {
  CHECK(x.shape == y.shape && z.shape == y.shape);
  CHECK(x.layout == y.layout && z.layout == y.layout);
  CHECK(x.dtype == y.dtype && z.dtype == y.dtype);
  on_device(cpu::add, context, y, x, z);
}

void reorder(Context& context, Tensor to, ConstTensor from) {
  CHECK(to.shape == from.shape && to.data != from.data);
  on_device(cpu::reorder, context, to, from);
}

void axpy(Context& context,
          std::span<float> y,
          float a,
          std::span<const float> x) {
  CHECK(x.size() == y.size());
  on_device(cpu::axpy, context, y, a, x);
}

void scale(Context& context, std::span<float> y, float a) {
  on_device(cpu::scale, context, y, a);
}

void dropout(Context& context,
             Tensor y,
             ConstTensor x,
             float p,
             const DropoutKey& key) {
  CHECK(x.shape == y.shape && x.layout == y.layout && x.dtype == y.dtype);
  CHECK_MSG(p >= 0 && p < 1, "p = {}", p);
  on_device(cpu::dropout, context, y, x, p, key);
}

}  // namespace syncopate
