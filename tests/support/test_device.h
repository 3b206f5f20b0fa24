// The device that a test program runs on: one program per device is linked from
// the same tests, with one of test_device_{cpu,emulated,cuda}.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "ops/context.h"

namespace syncopate::test {

Device& test_device();  // lives until the program ends

// Whether the test device computes in bf16.
inline bool has_bf16() {
  return cpu_features().has_bf16 || test_device().kind() != DeviceKind::kCpu;
}

// An independent context on the test device.
struct TestContext {
  Device& device = test_device();
  std::unique_ptr<Stream> stream = device.make_stream();
  Context context;
  explicit TestContext(int threads = 2) : context(device, *stream, threads) {}
};

// Host values in memory of the test device, and back.
template <typename T>
class DeviceValues {
 public:
  explicit DeviceValues(std::span<const T> values)
      : elems_(std::ssize(values)), memory_(test_device(), bytes()) {
    const std::unique_ptr<Stream> stream = test_device().make_stream();
    test_device().copy(memory_.data(), values.data(), bytes(), *stream);
    stream->synchronize();
  }
  explicit DeviceValues(const T& value)
      : DeviceValues(std::span<const T>(&value, 1)) {}
  T* data() const { return memory_.as<T>(); }
  operator T*() const { return data(); }
  std::span<T> span() const { return {data(), static_cast<size_t>(elems_)}; }
  // Waits for everything submitted to `context`.
  std::vector<T> get(const Context& context) const {
    context.stream().synchronize();
    std::vector<T> values(static_cast<size_t>(elems_));
    test_device().copy(values.data(), memory_.data(), bytes(),
                       context.stream());
    context.stream().synchronize();
    return values;
  }

 private:
  int64_t bytes() const { return elems_ * int64_t{sizeof(T)}; }
  int64_t elems_;
  Buffer memory_;
};

}  // namespace syncopate::test
