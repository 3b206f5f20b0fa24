#include "tensor/tensor.h"

#include "base/bf16.h"

#include <bit>

namespace syncopate {

int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
      return 2;
    case DType::kU8:
      return 1;
  }
  CHECK(false);
}

const char* name_of(DType dtype) {
  constexpr const char* kNames[] = {"f32", "bf16", "i32", "u8"};
  return kNames[static_cast<int>(dtype)];
}

const char* name_of(Layout layout) {
  constexpr const char* kNames[] = {"row_major", "nhwc", "nchw16c"};
  return kNames[static_cast<int>(layout)];
}

float to_float(Bf16 value) {
  return from_bf16(value.bits);
}

Bf16 to_bf16(float value) {
  return {bf16_of(value)};
}

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims)
    : rank_(static_cast<int>(dims.size())) {
  CHECK(dims.size() <= dims_.size());
  for (int axis = 0; axis < rank_; ++axis) dims_[axis] = dims[axis];
}

int64_t Shape::elems() const {
  int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= dims_[axis];
  return product;
}

std::string Shape::text() const {
  std::string out = "(";
  for (int axis = 0; axis < rank_; ++axis)
    out += (axis ? ", " : "") + std::to_string(dims_[axis]);
  return out + ")";
}

Tensor make_tensor(void* data, DType dtype, Shape shape, Layout layout) {
  return Tensor{{data, dtype, shape, layout}};
}

ConstTensor make_const_tensor(const void* data,
                              DType dtype,
                              Shape shape,
                              Layout layout) {
  return ConstTensor(BasicTensor<const void*>{data, dtype, shape, layout});
}

}  // namespace syncopate
