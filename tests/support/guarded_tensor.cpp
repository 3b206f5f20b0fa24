#include "support/guarded_tensor.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "support/test_device.h"

namespace syncopate::test {

constexpr int64_t kGuardBytes = 128;  // a multiple of the alignment of ops
constexpr char kGuard = 0x5A;

namespace {

void copy(void* to, const void* from, int64_t bytes) {
  const std::unique_ptr<Stream> stream = test_device().make_stream();
  test_device().copy(to, from, bytes, *stream);
  stream->synchronize();
}

void put(DType dtype, char* at, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::kF32:
      return void(std::memcpy(at, &single, sizeof single));
    case DType::kBf16: {
      const Bf16 half = to_bf16(single);
      return void(std::memcpy(at, &half, sizeof half));
    }
    case DType::kI32: {
      const auto integer = static_cast<int32_t>(value);
      return void(std::memcpy(at, &integer, sizeof integer));
    }
    case DType::kU8:
      *at = static_cast<char>(static_cast<uint8_t>(value));
  }
}

template <typename T>
T value_at(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double get_one(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(value_at<float>(at));
    case DType::kBf16:
      return static_cast<double>(to_float(value_at<Bf16>(at)));
    case DType::kI32:
      return value_at<int32_t>(at);
    case DType::kU8:
      return value_at<uint8_t>(at);
  }
  CHECK(false);
}

}  // namespace

struct GuardedTensor::Memory {
  Tensor tensor;
  Buffer buffer;

  Memory(const Tensor& of, int64_t bytes)
      : tensor(of), buffer(test_device(), bytes) {
    tensor.data = buffer.as<char>() + kGuardBytes;
    const std::vector<char> guards(static_cast<size_t>(bytes), kGuard);
    copy(buffer.data(), guards.data(), bytes);
    const std::vector<char> ones(static_cast<size_t>(tensor.bytes()), '\xFF');
    copy(tensor.data, ones.data(), tensor.bytes());
  }
  ~Memory() {
    EXPECT_TRUE(is_intact())
        << "written beside a tensor of " << tensor.shape.text();
  }
  bool is_intact() const {
    test_device().synchronize();
    const int64_t end = kGuardBytes + tensor.bytes();
    return is_guard(0, kGuardBytes) && is_guard(end, buffer.bytes() - end);
  }
  bool is_guard(int64_t begin, int64_t bytes) const {
    std::vector<char> image(static_cast<size_t>(bytes));
    copy(image.data(), buffer.as<char>() + begin, bytes);
    return std::ranges::count(image, kGuard) == bytes;
  }
};

GuardedTensor::GuardedTensor(DType dtype, const Shape& shape, Layout layout) {
  const Tensor tensor = make_tensor(nullptr, dtype, shape, layout);
  const int64_t rounded = (tensor.bytes() + 63) / 64 * 64;
  memory_ = std::make_shared<Memory>(tensor, rounded + 2 * kGuardBytes);
  tensor_ = memory_->tensor;
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
  std::vector<char> image(static_cast<size_t>(tensor_.bytes()));
  for (int64_t i = 0; i < tensor_.elems(); ++i)
    put(tensor_.dtype, image.data() + place(i) * bytes_of(tensor_.dtype),
        values[static_cast<size_t>(i)]);
  copy(tensor_.data, image.data(), tensor_.bytes());
}

std::vector<double> GuardedTensor::get() const {
  const std::vector<char> image = bytes();
  std::vector<double> values(static_cast<size_t>(tensor_.elems()));
  for (int64_t i = 0; i < tensor_.elems(); ++i)
    values[static_cast<size_t>(i)] = get_one(
        tensor_.dtype, image.data() + place(i) * bytes_of(tensor_.dtype));
  return values;
}

std::vector<char> GuardedTensor::bytes() const {
  std::vector<char> image(static_cast<size_t>(tensor_.bytes()));
  test_device().synchronize();
  copy(image.data(), tensor_.data, tensor_.bytes());
  return image;
}

bool GuardedTensor::guards_are_intact() const {
  return memory_->is_intact();
}

std::vector<double> random_values(int64_t count, uint64_t seed) {
  Rng rng(seed, Purpose::kTest);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = 2 * rng.uniform() - 1;
  return values;
}

GuardedTensor random_tensor(const Shape& shape, uint64_t seed, DType dtype) {
  return {dtype, shape, random_values(shape.elems(), seed)};
}

GuardedTensor flat(const std::vector<double>& values, DType dtype) {
  return {dtype, {std::ssize(values)}, values};
}

}  // namespace syncopate::test
