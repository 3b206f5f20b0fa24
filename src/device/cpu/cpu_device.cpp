// The CPU as a device: aligned host memory; calls return when work is done.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/blocks.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "device/device.h"

namespace syncopate {
namespace {

class CpuStream final : public Stream {
 public:
  void synchronize() override {}
};

class CpuEvent final : public Event {
 public:
  void record(Stream&) override { recorded_s_ = monotonic_s(); }
  void wait_on(Stream&) override {}
  bool is_done() override { return true; }
  void synchronize() override {}
  double seconds_since(const Event& earlier) const override {
    return recorded_s_ - static_cast<const CpuEvent&>(earlier).recorded_s_;
  }

 private:
  double recorded_s_ = 0;
};

class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return cpu_features().model; }
  std::string identity() const override { return "cpu"; }
  int64_t total_bytes() const override {
    return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  }
  int64_t free_bytes() const override {
    return int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  }

  void* allocate(int64_t bytes) override {
    constexpr size_t kCacheLine = 64;  // also an AVX-512 register
    const auto wanted = static_cast<size_t>(bytes);
    void* const memory = allocate_block(
        (wanted + kCacheLine - 1) / kCacheLine * kCacheLine, kCacheLine);
    if (memory == nullptr)
      throw OutOfMemory(fmt::format("out of memory: {} asked for on the CPU",
                                    human_bytes(static_cast<double>(bytes))));
    return memory;
  }
  void release(void* memory) noexcept override { std::free(memory); }
  void* allocate_host(int64_t bytes) override { return allocate(bytes); }
  void release_host(void* memory) noexcept override { release(memory); }

  void copy(void* to, const void* from, int64_t bytes, Stream&) override {
    // An empty range may have null addresses.
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void fill_zero(void* memory, int64_t bytes, Stream&) override {
    if (bytes > 0) std::memset(memory, 0, static_cast<size_t>(bytes));
  }

  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CpuStream>();
  }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<CpuEvent>();
  }
  void synchronize() override {}
};

}  // namespace

void Stream::begin_capture() {
  CHECK_MSG(false, "only streams of a cuda device record");
}

std::unique_ptr<Graph> Stream::end_capture() {
  CHECK_MSG(false, "only streams of a cuda device record");
}

CpuFeatures cpu_features() {
  CpuFeatures features;
  features.has_avx512 = __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl");
  features.has_bf16 = __builtin_cpu_supports("avx512bf16");
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    features.cores = CPU_COUNT(&set);
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    features.model = trim(line.substr(line.find(':') + 1));
    break;
  }
  if (features.model.empty()) features.model = "cpu";
  return features;
}

std::unique_ptr<Device> make_cpu_device() {
  return std::make_unique<CpuDevice>();
}

}  // namespace syncopate
