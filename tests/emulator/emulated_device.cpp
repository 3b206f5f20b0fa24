// The emulated GPU: memory that only kernels, copies and fills may touch,
// streams that run their work at once, graphs that keep it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "emulator/emulator.h"
#include "emulator/engine.h"
#include "emulator/lanes.h"
#include "emulator/memory.h"
#include "emulator/region.h"
#include "emulator/symbol.h"

namespace syncopate {
namespace {

using emulator::Access;

using Work = std::function<void()>;
using Recording = std::vector<Work>;

// What the streams of a device know of it.
struct DeviceState {
  int index = 0;
  int num_captures = 0;
};

void refuse_in_capture(const DeviceState& device, const char* what) {
  if (device.num_captures > 0)
    fail(ExitCode::kInternal,
         "emulator: {} while a stream of the device is being captured", what);
}

class EmulatedStream final : public Stream {
 public:
  explicit EmulatedStream(std::shared_ptr<DeviceState> device)
      : device_(std::move(device)) {}
  ~EmulatedStream() override {
    if (recording_) --device_->num_captures;
  }

  void synchronize() override {
    if (recording_)
      fail(ExitCode::kInternal,
           "emulator: synchronize() of a stream that is being captured");
  }
  void begin_capture() override;
  std::unique_ptr<Graph> end_capture() override;

  void enqueue(Work work) {
    if (recording_) {
      recording_->push_back(std::move(work));
    } else {
      work();
    }
  }
  // The capture this stream is in, or null.
  const std::shared_ptr<Recording>& recording() const { return recording_; }

 private:
  std::shared_ptr<DeviceState> device_;
  std::shared_ptr<Recording> recording_;
};

EmulatedStream& emulated(Stream& stream) {
  auto* own = dynamic_cast<EmulatedStream*>(&stream);
  CHECK_MSG(own != nullptr, "the stream is not of an emulated GPU");
  return *own;
}

class EmulatedGraph final : public Graph {
 public:
  explicit EmulatedGraph(std::shared_ptr<const Recording> recording)
      : recording_(std::move(recording)) {}
  void launch(Stream& stream) override {
    for (const Work& work : *recording_) emulated(stream).enqueue(work);
  }

 private:
  std::shared_ptr<const Recording> recording_;
};

void EmulatedStream::begin_capture() {
  if (recording_)
    fail(ExitCode::kInternal, "emulator: begin_capture() within a capture");
  recording_ = std::make_shared<Recording>();
  ++device_->num_captures;
}

std::unique_ptr<Graph> EmulatedStream::end_capture() {
  if (!recording_)
    fail(ExitCode::kInternal, "emulator: end_capture() without a beginning");
  --device_->num_captures;
  return std::make_unique<EmulatedGraph>(std::exchange(recording_, nullptr));
}

class EmulatedEvent final : public Event {
 public:
  void record(Stream& stream) override {
    EmulatedStream& own = emulated(stream);
    state_->capture = own.recording();
    own.enqueue([state = state_] {
      state->capture.reset();
      state->recorded_s = monotonic_s();
    });
  }
  void wait_on(Stream& stream) override {
    const auto capture = pending_capture();
    if (capture && capture != emulated(stream).recording())
      refuse("a stream waits for");
  }
  bool is_done() override {
    if (pending_capture()) refuse("is_done() of");
    return true;
  }
  void synchronize() override {
    if (pending_capture()) refuse("synchronize() of");
  }
  double seconds_since(const Event& earlier) const override {
    return state_->recorded_s -
           static_cast<const EmulatedEvent&>(earlier).state_->recorded_s;
  }

 private:
  // Where it was last recorded, if that has not run yet.
  struct State {
    std::shared_ptr<Recording> capture;
    double recorded_s = 0;
  };

  std::shared_ptr<Recording> pending_capture() const { return state_->capture; }
  [[noreturn]] static void refuse(const char* what) {
    fail(ExitCode::kInternal,
         "emulator: {} an event that was recorded in a capture which has not "
         "run",
         what);
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Waits for nothing to unwind: what is found while an error is on its way
// would hide that error.
void report_at_release(const std::string& what) {
  if (what.empty() || std::uncaught_exceptions() > 0) return;
  std::fprintf(stderr, "emulator: at release: %s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(ExitCode::kInternal));
}

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(int index) { state_->index = index; }

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return "emulated GPU"; }
  std::string identity() const override {
    return fmt::format("emulated-{}", state_->index);
  }
  int64_t total_bytes() const override { return emulator::kDeviceBytes; }
  int64_t free_bytes() const override {
    return emulator::kDeviceBytes - emulator::used_device_bytes(state_->index);
  }

  void* allocate(int64_t bytes) override {
    refuse_in_capture(*state_, "allocate()");
    return emulator::allocate_device_memory(state_->index, bytes);
  }
  void release(void* memory) noexcept override {
    if (state_->num_captures > 0)
      report_at_release("a stream of the device is being captured");
    report_at_release(emulator::release_device_memory(memory));
  }
  void* allocate_host(int64_t bytes) override {
    refuse_in_capture(*state_, "allocate_host()");
    return emulator::allocate_locked_memory(bytes);
  }
  void release_host(void* memory) noexcept override {
    if (state_->num_captures > 0)
      report_at_release("a stream of the device is being captured");
    emulator::release_locked_memory(memory);
  }

  void copy(void* to, const void* from, int64_t bytes, Stream& stream) override;
  void fill_zero(void* memory, int64_t bytes, Stream& stream) override;

  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<EmulatedStream>(state_);
  }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<EmulatedEvent>();
  }
  void synchronize() override { refuse_in_capture(*state_, "synchronize()"); }

 private:
  std::shared_ptr<DeviceState> state_ = std::make_shared<DeviceState>();
};

void EmulatedDevice::copy(void* to,
                          const void* from,
                          int64_t bytes,
                          Stream& stream) {
  CHECK_MSG(bytes >= 0, "bytes = {}", bytes);
  if (bytes == 0) return;
  const bool is_captured = emulator::is_capturing(stream);
  for (const void* side : std::initializer_list<const void*>{to, from}) {
    if (emulator::is_device_memory(side)) continue;
    if (is_captured && !emulator::is_locked_memory(side, bytes))
      fail(ExitCode::kInternal,
           "emulator: a captured copy of {} bytes {} host memory that is not "
           "of allocate_host()",
           bytes, side == to ? "to" : "from");
  }
  // Where it runs: a graph may outlive the memory.
  emulated(stream).enqueue([to, from, bytes] {
    if (emulator::is_device_memory(to))
      emulator::check_device_range(to, bytes, "copy to the device");
    if (emulator::is_device_memory(from))
      emulator::check_device_range(from, bytes, "copy from the device");
    const Access access;
    std::memmove(to, from, static_cast<size_t>(bytes));
  });
}

void EmulatedDevice::fill_zero(void* memory, int64_t bytes, Stream& stream) {
  CHECK_MSG(bytes >= 0, "bytes = {}", bytes);
  if (bytes == 0) return;
  emulated(stream).enqueue([memory, bytes] {
    emulator::check_device_range(memory, bytes, "fill");
    const Access access;
    std::memset(memory, 0, static_cast<size_t>(bytes));
  });
}

}  // namespace

int cuda_device_count() {
  return static_cast<int>(
      emulator::number_of_environment("SYNCOPATE_EMULATED_GPUS", 1));
}

std::unique_ptr<Device> make_cuda_device(int index) {
  const int count = cuda_device_count();
  if (index < 0 || index >= count)
    fail(ExitCode::kBadInput, "run.device: cuda: no GPU {} here ({} emulated)",
         index, count);
  emulator::install_fault_reports();
  return std::make_unique<EmulatedDevice>(index);
}

namespace emulator {

bool is_capturing(const Stream& stream) {
  return emulated(const_cast<Stream&>(stream)).recording() != nullptr;
}

uint64_t number_of_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  uint64_t number = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stopped != end)
    fail(ExitCode::kBadInput, "{}: {}: not a number", name, text);
  return number;
}

void run_on(Stream& stream, std::function<void()> work, std::string name) {
  emulated(stream).enqueue([work = std::move(work), name = std::move(name)] {
    const WorkName work_name(name);
    const Access access;
    work();
    const std::string damage = check_padding();
    if (!damage.empty())
      fail(ExitCode::kInternal, "emulator: {}: {}", name, damage);
  });
}

void enqueue(Stream& stream, Launch launch) {
  const dim3 grid = launch.grid, block = launch.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const auto refuse = [&launch](const std::string& what) {
    fail(ExitCode::kInternal, "emulator: launch of kernel {}: {}",
         name_of_function(launch.kernel), what);
  };
  if (grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535)
    refuse(fmt::format("a grid of ({},{},{}) blocks", grid.x, grid.y, grid.z));
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64)
    refuse(
        fmt::format("blocks of ({},{},{}) threads", block.x, block.y, block.z));
  if (launch.shared_bytes < 0 || launch.shared_bytes > kMaxSharedBytes)
    refuse(fmt::format("{} bytes of shared memory, at most {} are there",
                       launch.shared_bytes, kMaxSharedBytes));
  emulated(stream).enqueue([launch = std::move(launch)] {
    const Access access;
    Engine::of_this_thread().run(launch);
    const std::string damage = check_padding();
    if (!damage.empty())
      fail(ExitCode::kInternal, "emulator: kernel {}: {}",
           name_of_function(launch.kernel), damage);
  });
}

}  // namespace emulator
}  // namespace syncopate
