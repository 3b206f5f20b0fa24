// A device: where memory lives and work is ordered. Two kinds, cpu and cuda,
// behind one interface; which is linked for cuda is a choice of file
// (cuda/*.cpp, no_cuda/*.cpp, or the tests' emulator), not of preprocessor.
//
// Memory of a cuda device is not for the host to touch: it gets there by
// copy() only. Spans and tensors do not say where they point; whoever holds
// one knows the device it came from. Streams, events and devices may be used
// from any thread, one thread at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace syncopate {

enum class DeviceKind : uint8_t { kCpu, kCuda };

class Stream;

// Recorded work, to be given to a stream again and again as one piece. The
// memory it reads and writes must be there still.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
};

// Work on a stream runs in the order in which it was given. On the CPU every
// call has finished when it returns, so a stream has nothing to wait for.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronize() = 0;

  // Between the two, work given to this stream is recorded and not run; memory
  // may be neither taken nor given back, and nothing may wait for the stream.
  // cuda only.
  virtual void begin_capture();
  virtual std::unique_ptr<Graph> end_capture();
};

// A point in a stream. An event that was never recorded counts as done.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream& stream) = 0;
  virtual void wait_on(Stream& stream) = 0;  // later work of `stream` waits
  virtual bool is_done() = 0;
  virtual void synchronize() = 0;  // the calling thread waits
  // Seconds from `earlier` to this one, of the same device; both are done.
  virtual double seconds_since(const Event& earlier) const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;  // for the banner: "AMD EPYC ...", ...
  // Equal for two devices of a host exactly if they are the same hardware.
  virtual std::string identity() const = 0;  // "cpu", a PCI address
  virtual int64_t total_bytes() const = 0;   // memory, free or not
  virtual int64_t free_bytes() const = 0;    // memory left, as of now

  // Uninitialised memory, aligned to 64 bytes (cuda: 256). Throws OutOfMemory
  // with the size asked for when there is none.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  // The same in host memory, which copies to and from this device read and
  // write without the host having to wait (page-locked).
  virtual void* allocate_host(int64_t bytes) = 0;
  virtual void release_host(void* memory) noexcept = 0;

  // Either side may be host or device memory; ordered on the stream. Host
  // memory that is not of allocate_host() is read and written before the call
  // returns.
  virtual void copy(void* to,
                    const void* from,
                    int64_t bytes,
                    Stream& stream) = 0;
  virtual void fill_zero(void* memory, int64_t bytes, Stream& stream) = 0;

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

// Owned host memory of a device (page-locked where that matters).
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
