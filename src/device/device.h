// A device: where memory lives and work is ordered. Two kinds, cpu and cuda,
// behind one interface; which is linked for cuda is a choice of file
// (cuda/*.cpp or no_cuda.cpp), not of preprocessor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace syncopate {

enum class DeviceKind : uint8_t { kCpu, kCuda };

// Work on a stream runs in the order in which it was given. On the CPU every
// call has finished when it returns, so a stream has nothing to wait for.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronize() = 0;
};

// A point in a stream. `wait_on` makes later work of another stream wait.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream& stream) = 0;
  virtual void wait_on(Stream& stream) = 0;
  virtual bool is_done() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;  // for the banner: "AMD EPYC ...", ...

  // Uninitialised memory, aligned to 64 bytes. Throws Error(kInternal) with
  // the size asked for when there is none.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;

  // Either side may be host or device memory; ordered on the stream.
  virtual void copy(void* to,
                    const void* from,
                    int64_t bytes,
                    Stream& stream) = 0;
  virtual void fill_zero(void* memory, int64_t bytes, Stream& stream) = 0;

  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
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

// What the processor can do, as far as kernels and refusals depend on it.
struct CpuFeatures {
  std::string model;  // "AMD EPYC 9B14"
  bool has_avx512 = false;
  bool has_bf16 = false;  // avx512_bf16 or amx_bf16
  int cores = 1;          // processors this process may run on
};
CpuFeatures cpu_features();

std::unique_ptr<Device> make_cpu_device();

// Number of usable GPUs; 0 where there is no driver or no CUDA in the build.
int cuda_device_count();
// Throws Error(kBadInput): "run.device = cuda: ..." where there is none.
std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace syncopate
