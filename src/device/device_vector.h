// An owned range of values in device memory, the counterpart of std::vector,
// and temporary host access to a range.
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
  // Fills with zeros in the order of `stream`, which later copies use too. Both
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

  // Copies as many host values as it holds; complete on return.
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

// Gives the host read and write access to a range of device memory: the range
// itself on the CPU (and on a none device, where it has no values), otherwise a
// copy. The constructor waits for the stream;
// put_back() writes changes to the device.
class OnHost {
 public:
  OnHost(Device& device, Stream& stream, std::span<float> range)
      : device_(device), stream_(stream), range_(range) {
    stream.synchronize();
    if (device.kind() != DeviceKind::kCuda) return;
    copy_.resize(range.size());
    device.copy(copy_.data(), range.data(), bytes(), stream);
    stream.synchronize();
  }
  explicit OnHost(const DeviceVector<float>& values)
      : OnHost(values.device(), values.stream(), values.span()) {}

  std::span<float> values() {
    return device_.kind() != DeviceKind::kCuda ? range_ : std::span(copy_);
  }
  void put_back() {
    if (device_.kind() != DeviceKind::kCuda) return;
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
