// Tensors are views: a pointer, an element type, logical dimensions and the
// memory layout. They own nothing; arenas and buffers do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/check.h"

namespace syncopate {

enum class DType : uint8_t { kF32, kBf16, kI32, kU8 };
int64_t bytes_of(DType dtype);
const char* name_of(DType dtype);

// Storage for bf16: the upper half of a float. Arithmetic happens in float.
struct Bf16 {
  uint16_t bits;
};
float to_float(Bf16 value);
Bf16 to_bf16(float value);  // round to nearest even; NaN stays NaN

// Memory layout of the logical (N, C, H, W) of an image tensor. Tensors of
// other ranks are always kRowMajor.
enum class Layout : uint8_t {
  kRowMajor,  // as the dimensions are written: (N, C, H, W), (N, D), (K, C)
  kNhwc,      // channels last
  kNchw16c,  // oneDNN's blocks of 16 channels: (N, C/16, H, W, 16), C % 16 == 0
};
const char* name_of(Layout layout);

// Up to five logical dimensions.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);
  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[axis]; }
  int64_t elems() const;     // 1 for rank 0
  std::string text() const;  // "(128, 16, 32, 32)"
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, 5> dims_{};
  int rank_ = 0;
};

template <typename Pointer>
struct BasicTensor {
  Pointer data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  Layout layout = Layout::kRowMajor;

  int64_t elems() const { return shape.elems(); }
  int64_t bytes() const { return elems() * bytes_of(dtype); }
};

// Writable and read-only views.
struct Tensor : BasicTensor<void*> {
  float* f32() const {
    CHECK(dtype == DType::kF32);
    return static_cast<float*>(data);
  }
};
struct ConstTensor : BasicTensor<const void*> {
  ConstTensor() = default;
  ConstTensor(const Tensor& t)
      : BasicTensor{t.data, t.dtype, t.shape, t.layout} {}
  explicit ConstTensor(BasicTensor<const void*> t) : BasicTensor(t) {}
  const float* f32() const {
    CHECK(dtype == DType::kF32);
    return static_cast<const float*>(data);
  }
};

Tensor make_tensor(void* data,
                   DType dtype,
                   Shape shape,
                   Layout layout = Layout::kRowMajor);
ConstTensor make_const_tensor(const void* data,
                              DType dtype,
                              Shape shape,
                              Layout layout = Layout::kRowMajor);

}  // namespace syncopate
