// A device that computes nothing: its memory is a range of addresses that no
// page stands behind, so that touching it is a segmentation fault and not a
// wrong number.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "base/check.h"
#include "base/text.h"
#include "device/device.h"

namespace syncopate {
namespace {

class NoneStream final : public Stream {
 public:
  void synchronize() override {}
};

class NoneEvent final : public Event {
 public:
  void record(Stream&) override {}
  void wait_on(Stream&) override {}
  bool is_done() override { return true; }
  void synchronize() override {}
  double seconds_since(const Event&) const override { return 0; }
};

class NoneDevice final : public Device {
 public:
  // A second device finds the range reserved by the first.
  NoneDevice() {
    static const bool is_reserved = [] {
      void* const wanted = without_values();
      return mmap(wanted, kBytesWithoutValues, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                      MAP_FIXED_NOREPLACE,
                  -1, 0) == wanted;
    }();
    if (!is_reserved)
      throw OutOfMemory(fmt::format(
          "ulimit -v: a simulation reserves {} of addresses, though hardly any "
          "memory, expected unlimited",
          human_bytes(static_cast<double>(kBytesWithoutValues))));
  }

  DeviceKind kind() const override { return DeviceKind::kNone; }
  std::string name() const override { return "no device"; }
  std::string identity() const override { return "none"; }
  int64_t total_bytes() const override { return kBytesWithoutValues; }
  // Negative if more was allocated than there are addresses.
  int64_t free_bytes() const override { return total_bytes() - allocated_; }

  // Ranges that are allocated one after the other are disjoint, as ops expect
  // of their arguments. At the end of all addresses it starts again with the
  // first.
  void* allocate(int64_t bytes) override {
    constexpr uintptr_t kAlignment = 256;
    const uintptr_t size =
        (static_cast<uintptr_t>(bytes) + kAlignment) / kAlignment * kAlignment;
    if (size > kBytesWithoutValues)
      throw OutOfMemory(fmt::format("out of memory: {} of addresses asked for",
                                    human_bytes(static_cast<double>(bytes))));
    if (size > kBytesWithoutValues - used_) used_ = 0;
    used_ += size;
    allocated_ += static_cast<int64_t>(size);
    void* const memory =
        reinterpret_cast<void*>(kFirstWithoutValues + used_ - size);
    sizes_.emplace(memory, size);
    return memory;
  }
  void release(void* memory) noexcept override {
    const auto found = sizes_.find(memory);
    if (found == sizes_.end()) return;
    allocated_ -= static_cast<int64_t>(found->second);
    sizes_.erase(found);
  }
  // Memory of the host has values.
  void* allocate_host(int64_t bytes) override {
    void* const memory = std::calloc(static_cast<size_t>(bytes), 1);
    if (memory == nullptr && bytes > 0)
      throw OutOfMemory(fmt::format("out of memory: {} asked for on the host",
                                    human_bytes(static_cast<double>(bytes))));
    return memory;
  }
  void release_host(void* memory) noexcept override { std::free(memory); }

  // Values that do not exist are read as zeros.
  void copy(void* to, const void* from, int64_t bytes, Stream&) override {
    if (bytes == 0 || !has_values(to)) return;
    if (has_values(from))
      std::memcpy(to, from, static_cast<size_t>(bytes));
    else
      std::memset(to, 0, static_cast<size_t>(bytes));
  }
  void fill_zero(void* memory, int64_t bytes, Stream&) override {
    CHECK(bytes == 0 || !has_values(memory));
  }

  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<NoneStream>();
  }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<NoneEvent>();
  }
  void synchronize() override {}

 private:
  uintptr_t used_ = 0;     // addresses since the first; none is used again
  int64_t allocated_ = 0;  // and not released
  std::unordered_multimap<void*, uintptr_t> sizes_;  // of what is allocated
};

}  // namespace

std::unique_ptr<Device> make_none_device() {
  return std::make_unique<NoneDevice>();
}

}  // namespace syncopate
