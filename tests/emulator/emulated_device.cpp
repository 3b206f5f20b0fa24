// The emulated GPU: memory that only kernels, copies and fills may touch,
// streams that queue their work, graphs that keep it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/check.h"
#include "emulator/emulator.h"
#include "emulator/engine.h"
#include "emulator/lanes.h"
#include "emulator/memory.h"
#include "emulator/region.h"
#include "emulator/streams.h"
#include "emulator/symbol.h"
#include "emulator/traffic.h"

namespace syncopate {
namespace {

using emulator::Access;

using emulator::Mark;
using emulator::Streams;

struct EventState;

// What a stream is given; in a recording an event has no mark yet.
struct Given {
  std::function<void()> work;
  std::shared_ptr<EventState> event;  // to be recorded, if it is not null
};
using Recording = std::vector<Given>;

// What the streams of a device know of it.
struct DeviceState {
  DeviceState(int index, uint64_t seed)
      : index(index), streams(seed + 2 * static_cast<uint64_t>(index)) {}

  const int index;
  std::atomic<int> num_captures{0};
  Streams streams;
};

// Where an event was last recorded.
struct EventState {
  std::shared_ptr<Recording> capture;  // a recording, which has not run yet
  std::shared_ptr<DeviceState> device;
  std::shared_ptr<Mark> mark;
};

void refuse_in_capture(const DeviceState& device, const char* what) {
  if (device.num_captures > 0)
    fail(ExitCode::kInternal,
         "emulator: {} while a stream of the device is being captured", what);
}

// Waits for nothing to unwind: what is found while an error is on its way
// would hide that error.
void report_at_release(const std::string& what) {
  if (what.empty() || std::uncaught_exceptions() > 0) return;
  std::fprintf(stderr, "emulator: at release: %s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(ExitCode::kInternal));
}

// Runs work in a destructor or the like.
template <typename Work>
void run_at_release(const Work& work) {
  std::string report;
  try {
    work();
  } catch (const std::exception& error) {
    report = error.what();
  }
  report_at_release(report);
}

class EmulatedStream final : public Stream {
 public:
  explicit EmulatedStream(std::shared_ptr<DeviceState> device)
      : device_(std::move(device)), queue_(device_->streams.add()) {}
  ~EmulatedStream() override {
    if (recording_) --device_->num_captures;
    run_at_release([this] { device_->streams.finish(*queue_); });
    device_->streams.remove(queue_);
  }

  void synchronize() override {
    if (recording_)
      fail(ExitCode::kInternal,
           "emulator: synchronize() of a stream that is being captured");
    device_->streams.finish(*queue_);
  }
  void begin_capture() override;
  std::unique_ptr<Graph> end_capture() override;

  void enqueue(Given given) {
    if (given.event) given.event->capture = recording_;
    if (recording_) {
      recording_->push_back(std::move(given));
      return;
    }
    Streams::Piece piece;
    piece.work = std::move(given.work);
    if (given.event) {
      piece.reached = std::make_shared<Mark>();
      given.event->mark = piece.reached;
      given.event->device = device_;
    }
    device_->streams.give(*queue_, std::move(piece));
  }
  void enqueue(std::function<void()> work) { enqueue({std::move(work), {}}); }

  void wait_for(const EventState& event) {
    if (event.device != device_) {
      event.device->streams.finish(*event.mark);
    } else if (!event.mark->is_reached) {
      device_->streams.give(*queue_, {{}, event.mark});
    }
  }

  // The capture this stream is in, or null.
  const std::shared_ptr<Recording>& recording() const { return recording_; }

 private:
  std::shared_ptr<DeviceState> device_;
  std::shared_ptr<Streams::Queue> queue_;
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
    for (const Given& given : *recording_) emulated(stream).enqueue(given);
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
    emulated(stream).enqueue({{}, state_});
  }
  void wait_on(Stream& stream) override {
    EmulatedStream& own = emulated(stream);
    if (state_->capture) {
      // In its own recording it comes behind the event anyway.
      if (state_->capture != own.recording()) refuse("a stream waits for");
    } else if (state_->mark) {
      if (own.recording())
        fail(ExitCode::kInternal,
             "emulator: a stream that is being captured waits for an event "
             "that was recorded outside of the capture");
      own.wait_for(*state_);
    }
  }
  bool is_done() override {
    if (state_->capture) refuse("is_done() of");
    return !state_->mark || state_->device->streams.has_reached(*state_->mark);
  }
  void synchronize() override {
    if (state_->capture) refuse("synchronize() of");
    if (state_->mark) state_->device->streams.finish(*state_->mark);
  }
  double seconds_since(const Event& earlier) const override {
    return reached_s() - static_cast<const EmulatedEvent&>(earlier).reached_s();
  }

 private:
  [[noreturn]] static void refuse(const char* what) {
    fail(ExitCode::kInternal,
         "emulator: {} an event that was recorded in a capture which has not "
         "run",
         what);
  }

  double reached_s() const {
    if (!state_->mark || !state_->mark->is_reached)
      fail(ExitCode::kInternal,
           "emulator: seconds_since() of an event that is not done");
    return state_->mark->reached_s;
  }

  std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
};

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(int index, uint64_t seed)
      : state_(std::make_shared<DeviceState>(index, seed)) {}

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return "emulated GPU"; }
  std::string identity() const override {
    return fmt::format("emulated-{}", state_->index);
  }
  int64_t total_bytes() const override { return emulator::device_bytes(); }
  int64_t free_bytes() const override {
    return emulator::device_bytes() -
           emulator::used_device_bytes(state_->index);
  }

  void* allocate(int64_t bytes) override {
    refuse_in_capture(*state_, "allocate()");
    return emulator::allocate_device_memory(state_->index, bytes);
  }
  void release(void* memory) noexcept override {
    if (memory == nullptr) return;
    finish_at_release();
    report_at_release(emulator::release_device_memory(memory));
  }
  void* allocate_host(int64_t bytes) override {
    refuse_in_capture(*state_, "allocate_host()");
    return emulator::allocate_locked_memory(bytes);
  }
  void release_host(void* memory) noexcept override {
    if (memory == nullptr) return;
    finish_at_release();
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
  void synchronize() override {
    refuse_in_capture(*state_, "synchronize()");
    state_->streams.finish_all();
  }

 private:
  void finish_at_release() noexcept {
    if (state_->num_captures > 0)
      report_at_release("a stream of the device is being captured");
    run_at_release([this] { state_->streams.finish_all(); });
  }

  std::shared_ptr<DeviceState> state_;
};

void check_copy(const void* to, const void* from, int64_t bytes) {
  if (emulator::is_device_memory(to))
    emulator::check_device_range(to, bytes, "copy to the device");
  if (emulator::is_device_memory(from))
    emulator::check_device_range(from, bytes, "copy from the device");
}

void EmulatedDevice::copy(void* to,
                          const void* from,
                          int64_t bytes,
                          Stream& stream) {
  CHECK_MSG(bytes >= 0, "bytes = {}", bytes);
  if (bytes == 0) return;
  EmulatedStream& own = emulated(stream);
  bool is_pageable = false;
  for (const void* side : std::initializer_list<const void*>{to, from}) {
    if (emulator::is_device_memory(side)) continue;
    if (emulator::is_locked_memory(side, bytes)) continue;
    is_pageable = true;
    if (own.recording())
      fail(ExitCode::kInternal,
           "emulator: a captured copy of {} bytes {} host memory that is not "
           "of allocate_host()",
           bytes, side == to ? "to" : "from");
  }
  if (!own.recording()) check_copy(to, from, bytes);
  // Again where it runs: a graph may outlive the memory.
  own.enqueue([to, from, bytes] {
    check_copy(to, from, bytes);
    const Access access;
    std::memmove(to, from, static_cast<size_t>(bytes));
    emulator::note_copy(bytes);
  });
  if (is_pageable) own.synchronize();
}

void EmulatedDevice::fill_zero(void* memory, int64_t bytes, Stream& stream) {
  CHECK_MSG(bytes >= 0, "bytes = {}", bytes);
  if (bytes == 0) return;
  EmulatedStream& own = emulated(stream);
  const auto check = [memory, bytes] {
    emulator::check_device_range(memory, bytes, "fill");
  };
  if (!own.recording()) check();
  own.enqueue([memory, bytes, check] {
    check();
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
  return emulator::make_emulated_device(
      index, emulator::number_of_environment("SYNCOPATE_EMULATOR_SEED", 1));
}

namespace emulator {

std::unique_ptr<Device> make_emulated_device(int index, uint64_t seed) {
  const int count = cuda_device_count();
  if (index < 0 || index >= count)
    fail(ExitCode::kBadInput, "run.device: cuda: no GPU {} here ({} emulated)",
         index, count);
  emulator::install_fault_reports();
  return std::make_unique<EmulatedDevice>(index, seed);
}

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
    note_work([&name] { return name; });
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
    note_work([&launch] { return name_of_function(launch.kernel); });
    const std::string damage = check_padding();
    if (!damage.empty())
      fail(ExitCode::kInternal, "emulator: kernel {}: {}",
           name_of_function(launch.kernel), damage);
  });
}

}  // namespace emulator
}  // namespace syncopate
