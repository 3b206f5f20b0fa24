// A tensor for tests, with guard bytes on both sides. It is filled from and
// read as doubles in the order in which its dimensions are written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

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

  Tensor tensor() const { return tensor_; }
  operator Tensor() const { return tensor_; }
  operator ConstTensor() const { return tensor_; }

  void set(const std::vector<double>& values);
  std::vector<double> get() const;
  std::vector<char> bytes() const;  // for bitwise comparisons
  bool guards_are_intact() const;

 private:
  int64_t place(int64_t index) const;  // canonical index -> place in memory
  std::shared_ptr<Buffer> memory_;     // of the test device
  Tensor tensor_;
};

// Returns uniform values in [-1, 1], the same for the same seed.
std::vector<double> random_values(int64_t count, uint64_t seed);

}  // namespace syncopate::test
