// A tensor for tests, with guard bytes on both sides. It is filled from and
// read as doubles in the order in which its dimensions are written. The test
// fails if a guard byte has changed when the last copy is destroyed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "tensor/shadow.h"

namespace syncopate::test {

class GuardedTensor {
 public:
  // Starts as NaN (integers: all bits set), which reveals elements that an op
  // leaves unwritten.
  GuardedTensor(DType dtype,
                const Shape& shape,
                Layout layout = Layout::kRowMajor);
  GuardedTensor(DType dtype,
                const Shape& shape,
                Layout layout,
                const std::vector<double>& values)
      : GuardedTensor(dtype, shape, layout) {
    set(values);
  }
  GuardedTensor(DType dtype,
                const Shape& shape,
                const std::vector<double>& values)
      : GuardedTensor(dtype, shape, Layout::kRowMajor, values) {}

  Tensor tensor() const { return tensor_; }
  operator Tensor() const { return tensor_; }
  operator ConstTensor() const { return tensor_; }
  operator ConstWeight() const { return tensor_; }
  // All elements of a tensor of fp32, in the order of memory.
  std::span<float> span() const {
    return {tensor_.f32(), static_cast<size_t>(tensor_.elems())};
  }
  operator std::span<float>() const { return span(); }
  operator std::span<const float>() const { return span(); }

  void set(const std::vector<double>& values);
  std::vector<double> get() const;
  std::vector<char> bytes() const;  // for bitwise comparisons
  bool guards_are_intact() const;

 private:
  int64_t place(int64_t index) const;  // canonical index -> place in memory
  struct Memory;                       // of the test device
  std::shared_ptr<Memory> memory_;
  Tensor tensor_;
};

// `values` preceded by `places` other elements, for ranges with any alignment.
template <typename T>
std::vector<T> moved_by(size_t places, T other, std::vector<T> values) {
  values.insert(values.begin(), places, other);
  return values;
}

// Returns uniform values in [-1, 1], the same for the same seed.
std::vector<double> random_values(int64_t count, uint64_t seed);

// Tensors of random_values, and of one dimension.
GuardedTensor random_tensor(const Shape& shape,
                            uint64_t seed,
                            DType dtype = DType::kF32);
GuardedTensor flat(const std::vector<double>& values,
                   DType dtype = DType::kF32);
inline GuardedTensor flat(int64_t elems,
                          uint64_t seed,
                          DType dtype = DType::kF32) {
  return random_tensor({elems}, seed, dtype);
}

}  // namespace syncopate::test
