#include "ops/elementwise.h"

#include "ops/bodies.h"

namespace syncopate {

void add(Context& context, Tensor y, ConstTensor x, ConstTensor z) {
  CHECK(x.shape == y.shape && z.shape == y.shape);
  CHECK(x.layout == y.layout && z.layout == y.layout);
  CHECK(x.dtype == y.dtype && z.dtype == y.dtype);
  bodies_of(context).add(context, y, x, z);
}

void reorder(Context& context, Tensor to, ConstTensor from) {
  CHECK(to.shape == from.shape && to.data != from.data);
  bodies_of(context).reorder(context, to, from);
}

void pad_channels(Context& context, Tensor y, ConstTensor x) {
  const Shape& s = x.shape;
  CHECK(s.rank() == 4 && x.dtype == DType::kF32 && y.dtype == DType::kBf16);
  CHECK(x.layout == Layout::kNhwc && y.layout == Layout::kNhwc);
  CHECK(y.shape == Shape({s[0], padded_channels(s[1]), s[2], s[3]}));
  bodies_of(context).pad_channels(context, y, x);
}

void axpy(Context& context,
          std::span<float> y,
          float a,
          std::span<const float> x) {
  CHECK(x.size() == y.size());
  bodies_of(context).axpy(context, y, a, x);
}

void scale(Context& context, std::span<float> y, float a) {
  bodies_of(context).scale(context, y, a);
}

void scale_by(Context& context, std::span<float> y, const float* a) {
  bodies_of(context).scale_by(context, y, a);
}

void dropout(Context& context,
             Tensor y,
             ConstTensor x,
             float p,
             const DropoutKey* key,
             uint64_t salt) {
  CHECK(x.shape == y.shape && x.layout == y.layout && x.dtype == y.dtype);
  CHECK_MSG(p >= 0 && p < 1, "p = {}", p);
  bodies_of(context).dropout(context, y, x, p, key, salt);
}

void store_dropout_key(Context& context,
                       DropoutKey* to,
                       const DropoutKey& key) {
  bodies_of(context).store_dropout_key(context, to, key);
}

}  // namespace syncopate
