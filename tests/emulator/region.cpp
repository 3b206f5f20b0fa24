#include "emulator/region.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "emulator/emulator.h"
#include "emulator/lanes.h"
#include "emulator/memory.h"

namespace syncopate::emulator {
namespace {

// Address space only: room for several devices, and for released memory to
// stay unused for long.
constexpr int64_t kRegionBytes = int64_t{256} << 30;

struct Region {
  std::byte* begin = nullptr;
  int64_t file_offset = 0;  // of what is mapped at `begin`
  int empty_file = -1;
};

Region make_region() {
  Region region;
  region.empty_file = memfd_create("emulated-gpu", MFD_CLOEXEC);
  if (region.empty_file < 0)
    fail_errno(ExitCode::kInternal, "emulator", "memfd_create");
  void* base = mmap(nullptr, kRegionBytes + kChunkBytes, PROT_NONE,
                    MAP_SHARED | MAP_NORESERVE, region.empty_file, 0);
  if (base == MAP_FAILED)
    fail_errno(ExitCode::kInternal, "emulator", "address space");
  const auto address = reinterpret_cast<uintptr_t>(base);
  const uintptr_t skipped = (kChunkBytes - address % kChunkBytes) % kChunkBytes;
  region.begin = static_cast<std::byte*>(base) + skipped;
  region.file_offset = static_cast<int64_t>(skipped);
  return region;
}

const Region& region() {
  static const Region instance = make_region();
  return instance;
}

// Filled by the fault handler, which may not lock; emptied under `mutex`.
constexpr size_t kMaxOpened = size_t{1} << 16;
struct Opened {
  std::mutex mutex;
  std::atomic<int> depth{0};
  std::atomic<size_t> count{0};
  std::atomic<bool> counts_pages{false};
  std::atomic<int64_t> pages_read{0}, pages_written{0};
  std::array<std::atomic<std::byte*>, kMaxOpened> chunks;
};
Opened& opened() {
  static Opened& instance = *new Opened;
  return instance;
}

constinit std::atomic<std::byte*> handled_begin{nullptr};
constinit thread_local const std::string* work_name = nullptr;
struct sigaction previous_segv, previous_bus;

// While pages are counted, one that is read is opened for reading only.
bool open_at(std::byte* address, bool is_write) {
  std::byte* const begin = handled_begin.load();
  const int64_t bytes = opened_bytes();
  std::byte* chunk = begin + (address - begin) / bytes * bytes;
  Opened& state = opened();
  const size_t slot = state.count.fetch_add(1);
  if (slot < kMaxOpened) state.chunks[slot] = chunk;
  int protection = PROT_READ | PROT_WRITE;
  if (state.counts_pages) {
    ++(is_write ? state.pages_written : state.pages_read);
    if (!is_write) protection = PROT_READ;
  }
  return mprotect(chunk, bytes, protection) == 0;
}

void on_fault(int signal, siginfo_t* info, void* machine) {
  constexpr greg_t kIsWrite = 2;  // of a page fault's error code on x86
  const bool is_write =
      (static_cast<const ucontext_t*>(machine)->uc_mcontext.gregs[REG_ERR] &
       kIsWrite) != 0;
  auto* address = static_cast<std::byte*>(info->si_addr);
  std::byte* const begin = handled_begin.load();
  const bool is_ours = address >= begin && address < begin + kRegionBytes;
  const bool is_open = opened().depth.load() > 0;
  if (is_ours && is_open && signal == SIGSEGV && open_at(address, is_write))
    return;
  if (is_ours && !is_open)
    report_and_exit(
        fmt::format("the host touched device memory at {}, {}: it gets "
                    "there by Device::copy() only",
                    fmt::ptr(address), nearest_allocation(address)));
  const std::string lane = running_lane();
  const std::string who = lane.empty() ? current_work() : lane;
  if (is_ours)
    report_and_exit(fmt::format("{}: access outside of device memory at {}, {}",
                                who, fmt::ptr(address),
                                nearest_allocation(address)));
  if (!lane.empty()) {
    const std::string guard = guard_hit(address);
    if (!guard.empty()) report_and_exit(fmt::format("{}: {}", who, guard));
    report_and_exit(fmt::format("{}: access to {}, which is not device memory",
                                who, fmt::ptr(address)));
  }
  // Not ours: the instruction faults again under the handler before us.
  sigaction(signal, signal == SIGSEGV ? &previous_segv : &previous_bus,
            nullptr);
}

void close_chunks(Opened& state) {
  const size_t count = state.count.exchange(0);
  state.pages_read = state.pages_written = 0;
  if (count > kMaxOpened) {
    CHECK(mprotect(region_begin(), kRegionBytes, PROT_NONE) == 0);
    return;
  }
  std::byte* last = nullptr;
  for (size_t i = 0; i < count; ++i) {
    std::byte* chunk = state.chunks[i];
    if (chunk != last) CHECK(mprotect(chunk, opened_bytes(), PROT_NONE) == 0);
    last = chunk;
  }
}

}  // namespace

int64_t opened_bytes() {
  return opened().counts_pages ? kPageBytes : kChunkBytes;
}

void count_pages(bool is_on) {
  Opened& state = opened();
  const std::lock_guard lock(state.mutex);
  CHECK(state.depth == 0);
  state.counts_pages = is_on;
}

PageCounts counted_pages() {
  return {opened().pages_read, opened().pages_written};
}

std::byte* region_begin() {
  return region().begin;
}

std::byte* region_end() {
  return region().begin + kRegionBytes;
}

void map_memory(std::byte* begin, int64_t bytes) {
  void* mapped =
      mmap(begin, static_cast<size_t>(bytes), PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (mapped != begin)
    fail_errno(ExitCode::kInternal, "emulator", "device memory");
}

// At its own offset in the empty file, so that neighbours become one mapping.
void unmap_memory(std::byte* begin, int64_t bytes) {
  void* mapped =
      mmap(begin, static_cast<size_t>(bytes), PROT_NONE,
           MAP_SHARED | MAP_NORESERVE | MAP_FIXED, region().empty_file,
           region().file_offset + (begin - region().begin));
  CHECK(mapped == begin);
}

std::vector<std::byte*> opened_chunks() {
  Opened& state = opened();
  const size_t count = std::min(state.count.load(), kMaxOpened);
  std::vector<std::byte*> chunks(state.chunks.begin(),
                                 state.chunks.begin() + count);
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

// The process ends here, so that what may not be called in a handler
// (allocation, formatting) can at worst end it less clearly.
void report_and_exit(const std::string& line) {
  const std::string text = "emulator: " + line + "\n";
  const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  _exit(written > 0 ? static_cast<int>(ExitCode::kInternal) : 1);
}

const std::string& current_work() {
  static const std::string kUnnamed = "code inside an Access";
  return work_name == nullptr ? kUnnamed : *work_name;
}

WorkName::WorkName(const std::string& name) : outer_(work_name) {
  work_name = &name;
}

WorkName::~WorkName() {
  work_name = outer_;
}

Access::Access() {
  Opened& state = opened();
  const std::lock_guard lock(state.mutex);
  ++state.depth;
}

Access::~Access() {
  Opened& state = opened();
  const std::lock_guard lock(state.mutex);
  if (--state.depth == 0) close_chunks(state);
}

// Again whenever asked: communication libraries install handlers of their own
// when they start.
void install_fault_reports() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  handled_begin = region_begin();
  opened();
  struct sigaction action {
  }, present{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (auto [signal, previous] :
       {std::pair(SIGSEGV, &previous_segv), std::pair(SIGBUS, &previous_bus)}) {
    CHECK(sigaction(signal, nullptr, &present) == 0);
    if (present.sa_sigaction == on_fault) continue;
    *previous = present;
    CHECK(sigaction(signal, &action, nullptr) == 0);
  }
}

}  // namespace syncopate::emulator
