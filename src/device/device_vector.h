// A range of values in a device's memory, owned: what std::vector is on the
// host; and a range's values in host memory for a while.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/check.h"
#include "device/device.h"

namespace syncopate {

template <typename T>
class DeviceVector {
 public:
  DeviceVector() = default;
  // Zeros, in the order of `stream`, which later copies go through too. Both
  // must outlive it.
  DeviceVector(Device& device, Stream& stream, int64_t elems)
      : device_(&device),
        stream_(&stream),
        elems_(elems),
        memory_(device, elems * int64_t{sizeof(T)}) {
    device.fill_zero(memory_.data(), memory_.bytes(), stream);
  }

  int64_t size() const { return elems_; }
  bool empty() const { return elems_ == 0; }
  T* data() const { return memory_.as<T>(); }
  std::span<T> span() const { return {data(), static_cast<size_t>(elems_)}; }
  operator std::span<T>() const { return span(); }
  operator std::span<const T>() const { return span(); }
  Device& device() const { return *device_; }
  Stream& stream() const { return *stream_; }

  // Host values, as many as it has; the copy has been made at return.
  void assign(std::span<const T> values) {
    CHECK(std::ssize(values) == elems_);
    device_->copy(data(), values.data(), memory_.bytes(), *stream_);
    stream_->synchronize();
  }

 private:
  Device* device_ = nullptr;
  Stream* stream_ = nullptr;
  int64_t elems_ = 0;
  Buffer memory_;
};

// The values of a range of device memory where the host can read and change
// them: the range itself on the CPU, else a copy. Waits for the stream at the
// start; changes reach the device with put_back().
class OnHost {
 public:
  OnHost(Device& device, Stream& stream, std::span<float> range)
      : device_(device), stream_(stream), range_(range) {
    stream.synchronize();
    if (device.kind() == DeviceKind::kCpu) return;
    copy_.resize(range.size());
    device.copy(copy_.data(), range.data(), bytes(), stream);
    stream.synchronize();
  }
  explicit OnHost(const DeviceVector<float>& values)
      : OnHost(values.device(), values.stream(), values.span()) {}

  std::span<float> values() {
    return device_.kind() == DeviceKind::kCpu ? range_ : std::span(copy_);
  }
  void put_back() {
    if (device_.kind() == DeviceKind::kCpu) return;
    device_.copy(range_.data(), copy_.data(), bytes(), stream_);
    stream_.synchronize();
  }

 private:
  int64_t bytes() const { return static_cast<int64_t>(range_.size_bytes()); }
  Device& device_;
  Stream& stream_;
  std::span<float> range_;
  std::vector<float> copy_;
};

}  // namespace syncopate
