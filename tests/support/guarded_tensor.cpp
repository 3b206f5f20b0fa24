#include "support/guarded_tensor.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/rng.h"

namespace syncopate::test {

constexpr int64_t kGuardBytes = 128;  // a multiple of the alignment of ops
constexpr char kGuard = 0x5A;

GuardedTensor::GuardedTensor(DType dtype, const Shape& shape, Layout layout)
    : tensor_(make_tensor(nullptr, dtype, shape, layout)) {
  const int64_t rounded = (tensor_.bytes() + 63) / 64 * 64;
  memory_bytes_ = rounded + 2 * kGuardBytes;
  memory_.reset(static_cast<char*>(
                    std::aligned_alloc(64, static_cast<size_t>(memory_bytes_))),
                &std::free);
  std::memset(memory_.get(), kGuard, static_cast<size_t>(memory_bytes_));
  tensor_.data = memory_.get() + kGuardBytes;
  std::memset(tensor_.data, 0xFF, static_cast<size_t>(tensor_.bytes()));
}

int64_t GuardedTensor::place(int64_t index) const {
  const Shape& s = tensor_.shape;
  if (s.rank() != 4 || tensor_.layout == Layout::kRowMajor) return index;
  const int64_t C = s[1], H = s[2], W = s[3];
  const int64_t w = index % W, h = index / W % H, c = index / (W * H) % C;
  const int64_t n = index / (W * H * C);
  if (tensor_.layout == Layout::kNhwc) return ((n * H + h) * W + w) * C + c;
  return (((n * (C / 16) + c / 16) * H + h) * W + w) * 16 + c % 16;
}

void GuardedTensor::set(const std::vector<double>& values) {
  CHECK(static_cast<int64_t>(values.size()) == tensor_.elems());
  for (int64_t i = 0; i < tensor_.elems(); ++i) {
    const double value = values[static_cast<size_t>(i)];
    const int64_t at = place(i);
    switch (tensor_.dtype) {
      case DType::kF32:
        static_cast<float*>(tensor_.data)[at] = static_cast<float>(value);
        break;
      case DType::kBf16:
        static_cast<Bf16*>(tensor_.data)[at] =
            to_bf16(static_cast<float>(value));
        break;
      case DType::kI32:
        static_cast<int32_t*>(tensor_.data)[at] = static_cast<int32_t>(value);
        break;
      case DType::kU8:
        static_cast<uint8_t*>(tensor_.data)[at] = static_cast<uint8_t>(value);
        break;
    }
  }
}

std::vector<double> GuardedTensor::get() const {
  std::vector<double> values(static_cast<size_t>(tensor_.elems()));
  for (int64_t i = 0; i < tensor_.elems(); ++i) {
    double& value = values[static_cast<size_t>(i)];
    const int64_t at = place(i);
    switch (tensor_.dtype) {
      case DType::kF32:
        value = static_cast<double>(static_cast<float*>(tensor_.data)[at]);
        break;
      case DType::kBf16:
        value =
            static_cast<double>(to_float(static_cast<Bf16*>(tensor_.data)[at]));
        break;
      case DType::kI32:
        value = static_cast<int32_t*>(tensor_.data)[at];
        break;
      case DType::kU8:
        value = static_cast<uint8_t*>(tensor_.data)[at];
        break;
    }
  }
  return values;
}

std::vector<char> GuardedTensor::bytes() const {
  const auto* begin = static_cast<const char*>(tensor_.data);
  return {begin, begin + tensor_.bytes()};
}

bool GuardedTensor::guards_are_intact() const {
  const int64_t end = kGuardBytes + tensor_.bytes();
  for (int64_t i = 0; i < memory_bytes_; ++i)
    if ((i < kGuardBytes || i >= end) && memory_.get()[i] != kGuard)
      return false;
  return true;
}

std::vector<double> random_values(int64_t count, uint64_t seed) {
  Rng rng(seed, Purpose::kTest);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = 2 * rng.uniform() - 1;
  return values;
}

}  // namespace syncopate::test
