// A device: where memory lives and work is ordered. Three kinds, cpu, cuda and
// none, share one interface; the linked file selects the cuda implementation
// (cuda/*.cpp, no_cuda/*.cpp or the tests' emulator), not the preprocessor.
// The kind none computes nothing: a simulation needs sizes and times only.
//
// The host must not touch memory of a cuda device; data gets there only by
// copy(). Spans and tensors do not record where they point: whoever holds one
// knows its device. Streams, events and devices may be used from any thread,
// one thread at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"

namespace syncopate {

enum class DeviceKind : uint8_t { kCpu, kCuda, kNone };

// Addresses of a none device. No page stands behind them: they must not be
// touched, and a message of such memory is a size without content.
inline constexpr uintptr_t kFirstWithoutValues = uintptr_t{1} << 45;
inline constexpr uintptr_t kBytesWithoutValues = uintptr_t{1} << 45;
inline void* without_values() {
  return reinterpret_cast<void*>(kFirstWithoutValues);
}
inline bool has_values(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) - kFirstWithoutValues >=
         kBytesWithoutValues;
}

class Stream;

// Recorded work that can be launched on a stream repeatedly as one unit. The
// memory it reads and writes must still exist.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
};

// Work on a stream runs in submission order. On the CPU every call has finished
// when it returns, so there is never anything to wait for.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronize() = 0;

  // Work given to this stream between the two calls is recorded, not run.
  // Meanwhile memory may be neither allocated nor released, and nothing may
  // wait for the stream. cuda only.
  virtual void begin_capture();
  virtual std::unique_ptr<Graph> end_capture();
};

// A point in a stream. An event that was never recorded counts as complete.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream& stream) = 0;
  virtual void wait_on(Stream& stream) = 0;  // later work of `stream` waits
  virtual bool is_done() = 0;
  virtual void synchronize() = 0;  // the calling thread waits
  // Returns the seconds from `earlier` to this event. Both must be complete and
  // of the same device.
  virtual double seconds_since(const Event& earlier) const = 0;
};

// For destructors: waits for a stream or an event. An error of the device fails
// all later work too, and is or was reported there.
template <typename Work>
void settle(Work& work) noexcept {
  try {
    work.synchronize();
  } catch (const Error&) {
  }
}

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;  // for the banner: "AMD EPYC ...", ...
  // Equal for two devices of a host if and only if they are the same hardware.
  virtual std::string identity() const = 0;  // "cpu", a PCI address
  virtual int64_t total_bytes() const = 0;   // memory, free or not
  virtual int64_t free_bytes() const = 0;    // currently unallocated memory

  // Returns uninitialised memory aligned to 64 bytes (cuda: 256). Throws
  // OutOfMemory with the requested size.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  // Does the same for page-locked host memory, for which copies to and from
  // this device do not block the host.
  virtual void* allocate_host(int64_t bytes) = 0;
  virtual void release_host(void* memory) noexcept = 0;

  // Copies between host and device memory in any combination, ordered on the
  // stream. Host memory not from allocate_host() is read or written before the
  // call returns.
  virtual void copy(void* to,
                    const void* from,
                    int64_t bytes,
                    Stream& stream) = 0;
  virtual void fill_zero(void* memory, int64_t bytes, Stream& stream) = 0;

  // A range on the calling thread's line of a profiler (NVTX), if there is one;
  // ranges nest. `name` is copied.
  virtual void begin_range(const char* /*name*/) {}
  virtual void end_range() {}

  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual void synchronize() = 0;  // the caller waits for all streams
};

// Owned device memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, int64_t bytes)
      : device_(&device), bytes_(bytes), data_(device.allocate(bytes)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) device_->release(data_);
  }
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
  }
  Device* device_ = nullptr;
  int64_t bytes_ = 0;
  void* data_ = nullptr;
};

// Owned host memory of a device, page-locked if the device needs that.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(Device& device, int64_t bytes)
      : device_(&device), data_(device.allocate_host(bytes)), bytes_(bytes) {}
  HostBuffer(HostBuffer&& other) noexcept { swap(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~HostBuffer() {
    if (data_ != nullptr) device_->release_host(data_);
  }
  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(HostBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// CPU capabilities on which kernels and input checks depend.
struct CpuFeatures {
  std::string model;  // "AMD EPYC 9B14"
  bool has_avx512 = false;
  bool has_bf16 = false;  // avx512_bf16 or amx_bf16
  int cores = 1;          // processors this process may run on
};
CpuFeatures cpu_features();

std::unique_ptr<Device> make_cpu_device();

// Throws OutOfMemory if the process may not reserve its address space.
std::unique_ptr<Device> make_none_device();

// Number of usable GPUs; 0 without a driver or in a build without CUDA.
int cuda_device_count();
// Throws Error(kBadInput), "run.device = cuda: ...", if it does not exist.
std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace syncopate
