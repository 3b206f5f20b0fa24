// GPUs through the CUDA runtime, which is linked statically: without a driver
// the program starts and counts no devices.
#include <algorithm>

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include "base/check.h"
#include "base/text.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "device/device.h"

namespace syncopate {
namespace {

// The oldest architecture for which the kernels are compiled: the first with
// bf16 arithmetic.
constexpr int kOldestMajor = 8;

// The current device is per thread; nothing else in the program changes it.
cudaError_t make_current(int index) noexcept {
  thread_local int current = -1;
  if (current == index) return cudaSuccess;
  const cudaError_t error = cudaSetDevice(index);
  if (error == cudaSuccess) current = index;
  return error;
}

class CudaGraph final : public Graph {
 public:
  // Takes ownership of the recording.
  CudaGraph(int device, cudaGraph_t recording) : device_(device) {
    const cudaError_t error = cudaGraphInstantiate(&graph_, recording, 0);
    cudaGraphDestroy(recording);
    check_cuda(error, "cudaGraphInstantiate");
  }
  // Errors in destructors are not lost: the serious ones are sticky, and the
  // next call reports them.
  ~CudaGraph() override {
    make_current(device_);
    cudaGraphExecDestroy(graph_);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch(Stream& stream) override {
    check_cuda(cudaGraphLaunch(graph_, cuda_stream(stream)), "cudaGraphLaunch");
  }

 private:
  int device_;
  cudaGraphExec_t graph_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(int device) : device_(device) {
    use_cuda_device(device_);
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
  }
  ~CudaStream() override {
    make_current(device_);
    cudaStreamDestroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t use() const {
    use_cuda_device(device_);
    return stream_;
  }
  void synchronize() override {
    check_cuda(cudaStreamSynchronize(use()), "cudaStreamSynchronize");
  }
  // Only this thread is barred from calls that a capture cannot contain, so
  // other threads may continue to copy.
  void begin_capture() override {
    check_cuda(cudaStreamBeginCapture(use(), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
  }
  std::unique_ptr<Graph> end_capture() override {
    cudaGraph_t recording = nullptr;
    check_cuda(cudaStreamEndCapture(use(), &recording), "cudaStreamEndCapture");
    return std::make_unique<CudaGraph>(device_, recording);
  }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int device) : device_(device) {
    use_cuda_device(device_);
    check_cuda(cudaEventCreate(&event_), "cudaEventCreate");
  }
  ~CudaEvent() override {
    make_current(device_);
    cudaEventDestroy(event_);
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(Stream& stream) override {
    check_cuda(cudaEventRecord(event_, cuda_stream(stream)), "cudaEventRecord");
  }
  void wait_on(Stream& stream) override {
    check_cuda(cudaStreamWaitEvent(cuda_stream(stream), event_, 0),
               "cudaStreamWaitEvent");
  }
  bool is_done() override {
    use_cuda_device(device_);
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) {
      cudaGetLastError();  // cudaErrorNotReady is not a failure, but is kept as
                           // the last error
      return false;
    }
    check_cuda(error, "cudaEventQuery");
    return true;
  }
  void synchronize() override {
    use_cuda_device(device_);
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  double seconds_since(const Event& earlier) const override {
    use_cuda_device(device_);
    float ms = 0;
    check_cuda(cudaEventElapsedTime(
                   &ms, static_cast<const CudaEvent&>(earlier).event_, event_),
               "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(ms);
  }

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

// Returns whether `memory` is host memory unknown to CUDA.
bool is_pageable(const void* memory) {
  cudaPointerAttributes attributes;
  check_cuda(cudaPointerGetAttributes(&attributes, memory),
             "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeUnregistered;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, const cudaDeviceProp& properties) : index_(index) {
    use_cuda_device(index_);
    name_ = fmt::format(
        "{}, {:.1f} GiB", properties.name,
        static_cast<double>(properties.totalGlobalMem) / (int64_t{1} << 30));
    char address[32];  // "00000000:17:00.0" with room to spare
    check_cuda(cudaDeviceGetPCIBusId(address, sizeof address, index_),
               "cudaDeviceGetPCIBusId");
    identity_ = address;
  }

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return name_; }
  std::string identity() const override { return identity_; }
  int64_t total_bytes() const override { return memory_info().total; }
  int64_t free_bytes() const override { return memory_info().left; }
  void synchronize() override {
    use_cuda_device(index_);
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void begin_range(const char* name) override { nvtxRangePushA(name); }
  void end_range() override { nvtxRangePop(); }

  void* allocate(int64_t bytes) override {
    use_cuda_device(index_);
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, at_least_one(bytes));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw OutOfMemory(
          fmt::format("out of memory: {} asked for on {}, {} free",
                      human_bytes(static_cast<double>(bytes)), name_,
                      human_bytes(static_cast<double>(free_bytes()))));
    }
    check_cuda(error, "cudaMalloc");
    return memory;
  }
  void release(void* memory) noexcept override {
    make_current(index_);
    cudaFree(memory);
  }
  void* allocate_host(int64_t bytes) override {
    use_cuda_device(index_);
    void* memory = nullptr;
    const cudaError_t error =
        cudaHostAlloc(&memory, at_least_one(bytes), cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      fail(ExitCode::kInternal,
           "out of memory: {} of page-locked host memory asked for (see "
           "ulimit -l and the job's memory limit)",
           human_bytes(static_cast<double>(bytes)));
    }
    check_cuda(error, "cudaHostAlloc");
    return memory;
  }
  void release_host(void* memory) noexcept override {
    make_current(index_);
    cudaFreeHost(memory);
  }

  // CUDA does not specify when an asynchronous copy has finished with pageable
  // memory. This interface does, so it waits.
  void copy(void* to,
            const void* from,
            int64_t bytes,
            Stream& stream) override {
    if (bytes == 0) return;
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                               cudaMemcpyDefault, cuda_stream(stream)),
               "cudaMemcpyAsync");
    if (is_pageable(to) || is_pageable(from)) stream.synchronize();
  }
  void fill_zero(void* memory, int64_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    check_cuda(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes),
                               cuda_stream(stream)),
               "cudaMemsetAsync");
  }

  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CudaStream>(index_);
  }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<CudaEvent>(index_);
  }

 private:
  struct MemoryInfo {
    int64_t left, total;
  };
  MemoryInfo memory_info() const {
    use_cuda_device(index_);
    size_t left = 0, total = 0;
    check_cuda(cudaMemGetInfo(&left, &total), "cudaMemGetInfo");
    return {static_cast<int64_t>(left), static_cast<int64_t>(total)};
  }

  // An empty allocation still needs a unique address.
  static size_t at_least_one(int64_t bytes) {
    CHECK_MSG(bytes >= 0, "{} bytes", bytes);
    return static_cast<size_t>(std::max<int64_t>(bytes, 1));
  }

  int index_;
  std::string name_, identity_;
};

}  // namespace

cudaStream_t cuda_stream(Stream& stream) {
  auto* cuda = dynamic_cast<CudaStream*>(&stream);
  CHECK_MSG(cuda != nullptr, "not a stream of a cuda device");
  return cuda->use();
}

void use_cuda_device(int index) {
  check_cuda(make_current(index), "cudaSetDevice");
}

// Counts the devices before the first one that is too old for the kernels.
int cuda_device_count() {
  int all = 0;
  if (cudaGetDeviceCount(&all) != cudaSuccess) {
    cudaGetLastError();
    return 0;  // no driver, driver too old, or no device: `all` was not written
  }
  int usable = 0;
  for (int major = 0; usable < all; ++usable) {
    check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                      usable),
               "cudaDeviceGetAttribute");
    if (major < kOldestMajor) break;
  }
  return usable;
}

std::unique_ptr<Device> make_cuda_device(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();
    fail(ExitCode::kBadInput, "run.device: cuda: no GPU here ({})",
         cudaGetErrorString(error));
  }
  if (index < 0 || index >= count)
    fail(ExitCode::kBadInput,
         "run.device: cuda: no GPU {} here (there are {}, counted from 0)",
         index, count);
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index),
             "cudaGetDeviceProperties");
  if (properties.major < kOldestMajor)
    fail(ExitCode::kBadInput,
         "run.device: cuda: {} has compute capability {}.{}; {}.0 or later is "
         "needed (use run.device = cpu)",
         properties.name, properties.major, properties.minor, kOldestMajor);
  return std::make_unique<CudaDevice>(index, properties);
}

}  // namespace syncopate
