#include "emulator/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/text.h"
#include "emulator/emulator.h"
#include "emulator/lanes.h"
#include "emulator/padding.h"
#include "emulator/region.h"

namespace syncopate::emulator {
namespace {

constexpr int64_t kAlignment = 256;  // as of cudaMalloc

struct Allocation {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t mapped_bytes = 0;  // lead, data and slack: whole pages
  int index = 0;             // the device it belongs to

  std::byte* slack() const { return data + bytes; }
};

struct Ledger {
  std::mutex mutex;
  // By the first mapped byte; `released` only for reports.
  std::map<std::byte*, Allocation> live, released;
  std::map<int, int64_t> used_bytes;
  std::byte* cursor = nullptr;  // where the search for room goes on
  std::map<const std::byte*, int64_t> locked;
};

Ledger& ledger() {
  static Ledger& instance = *new Ledger;  // outlives static buffers
  return instance;
}

// What was written into [begin, end), the lead or the slack of `block`.
std::string damage(const Allocation& block, std::byte* begin, std::byte* end) {
  const std::byte* at = first_damage(begin, end);
  if (at == end) return {};
  std::string text = at < block.data
                         ? fmt::format("{} bytes before", block.data - at)
                         : fmt::format("{} bytes behind", at - block.slack());
  fill_pattern(begin, end);
  return fmt::format("write at {}, {} an allocation of {} bytes", fmt::ptr(at),
                     text, block.bytes);
}

std::string lead_damage(std::byte* mapped, const Allocation& block) {
  return damage(block, mapped, block.data);
}
std::string slack_damage(std::byte* mapped, const Allocation& block) {
  return damage(block, block.slack(), mapped + block.mapped_bytes);
}

// A place for `bytes` with a guard page on both sides. Freed places are taken
// again as late as possible. Null where there is none.
std::byte* find_room(Ledger& state, int64_t bytes) {
  const auto fits_after = [&](std::byte* from, std::byte* limit) {
    return limit - from >= bytes + 2 * kPageBytes;
  };
  for (std::byte* from : {state.cursor, region_begin()}) {
    if (from == nullptr) continue;
    auto next = state.live.lower_bound(from);
    if (next != state.live.begin()) {
      const auto& [start, block] = *std::prev(next);
      from = std::max(from, start + block.mapped_bytes);
    }
    for (;; ++next) {
      const bool is_last = next == state.live.end();
      if (fits_after(from, is_last ? region_end() : next->first))
        return from + kPageBytes;
      if (is_last) break;
      from = next->first + next->second.mapped_bytes;
    }
  }
  return nullptr;
}

int64_t round_up(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

void forget_released(Ledger& state, std::byte* begin, int64_t bytes) {
  auto next = state.released.lower_bound(begin);
  if (next != state.released.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.mapped_bytes > begin) next = before;
  }
  while (next != state.released.end() && next->first < begin + bytes)
    next = state.released.erase(next);
}

}  // namespace

int64_t device_bytes() {
  constexpr uint64_t kBytes = uint64_t{16} << 30;
  return static_cast<int64_t>(std::min(
      kBytes, number_of_environment("SYNCOPATE_EMULATED_MEMORY", kBytes)));
}

void* allocate_device_memory(int index, int64_t bytes) {
  CHECK(bytes >= 0);
  install_fault_reports();
  Ledger& state = ledger();
  const std::lock_guard lock(state.mutex);
  int64_t& used = state.used_bytes[index];
  const int64_t data_bytes = round_up(bytes, kAlignment);
  const int64_t mapped = std::max(round_up(data_bytes, kPageBytes), kPageBytes);
  const int64_t left = device_bytes() - used;
  std::byte* begin = bytes > left ? nullptr : find_room(state, mapped);
  if (begin == nullptr)
    throw OutOfMemory(
        fmt::format("out of memory: {} asked for on emulated GPU {}, {} free",
                    human_bytes(static_cast<double>(bytes)), index,
                    human_bytes(static_cast<double>(left))));
  const Allocation block{begin + mapped - data_bytes, bytes, mapped, index};
  forget_released(state, begin, mapped);
  const Access access;
  map_memory(begin, mapped);
  fill_pattern(begin, block.data);
  std::memset(block.data, 0xFF, static_cast<size_t>(bytes));
  fill_pattern(block.slack(), begin + mapped);
  state.live[begin] = block;
  state.cursor = begin + mapped;
  used += bytes;
  return block.data;
}

namespace {

std::map<std::byte*, Allocation>::iterator find_live(Ledger& state,
                                                     const void* memory) {
  auto* address = static_cast<std::byte*>(const_cast<void*>(memory));
  auto next = state.live.upper_bound(address);
  // An allocation of no bytes starts at its own guard.
  if (next == state.live.begin()) return state.live.end();
  --next;
  const auto& [begin, block] = *next;
  return address <= begin + block.mapped_bytes ? next : state.live.end();
}

}  // namespace

std::string release_device_memory(void* memory) {
  if (memory == nullptr) return {};
  Ledger& state = ledger();
  const std::lock_guard lock(state.mutex);
  const auto found = find_live(state, memory);
  if (found == state.live.end() || found->second.data != memory)
    return fmt::format("release of {}, which is no allocation's start",
                       fmt::ptr(memory));
  const auto [begin, block] = *found;
  std::string report;
  {
    const Access access;
    report = lead_damage(begin, block);
    if (report.empty()) report = slack_damage(begin, block);
  }
  unmap_memory(begin, block.mapped_bytes);
  state.used_bytes[block.index] -= block.bytes;
  state.live.erase(found);
  state.released[begin] = block;
  return report;
}

int64_t used_device_bytes(int index) {
  Ledger& state = ledger();
  const std::lock_guard lock(state.mutex);
  return state.used_bytes[index];
}

bool is_device_memory(const void* memory) {
  const auto* address = static_cast<const std::byte*>(memory);
  return address >= region_begin() && address < region_end();
}

void check_device_range(const void* memory,
                        int64_t bytes,
                        const std::string& what) {
  Ledger& state = ledger();
  const std::lock_guard lock(state.mutex);
  const auto found = find_live(state, memory);
  if (found == state.live.end())
    fail(ExitCode::kInternal,
         "emulator: {} of {} bytes: {} is no device memory", what, bytes,
         fmt::ptr(memory));
  const Allocation& block = found->second;
  const int64_t offset = static_cast<const std::byte*>(memory) - block.data;
  if (offset < 0 || offset + bytes > block.bytes)
    fail(ExitCode::kInternal,
         "emulator: {} of {} bytes from byte {} of an allocation of {} bytes",
         what, bytes, offset, block.bytes);
}

std::string check_padding() {
  Ledger& state = ledger();
  const std::lock_guard lock(state.mutex);
  const int64_t opened_at_once = opened_bytes();
  for (const std::byte* chunk : opened_chunks()) {
    auto next = find_live(state, chunk);
    if (next == state.live.end())
      next = state.live.lower_bound(const_cast<std::byte*>(chunk));
    const auto opened = [chunk, opened_at_once](const std::byte* at) {
      return at >= chunk && at < chunk + opened_at_once;
    };
    for (; next != state.live.end() && next->first < chunk + opened_at_once;
         ++next) {
      const auto& [begin, block] = *next;
      std::string report;
      if (opened(begin)) report = lead_damage(begin, block);
      if (report.empty() && opened(begin + block.mapped_bytes - 1))
        report = slack_damage(begin, block);
      if (!report.empty()) return report;
    }
  }
  return {};
}

std::string nearest_allocation(const std::byte* address) {
  Ledger& state = ledger();
  const std::unique_lock lock(state.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  for (const auto& [begin, block] : state.released)
    if (address >= block.data && address < block.slack())
      return fmt::format("byte {} of a released allocation of {} bytes",
                         address - block.data, block.bytes);
  const Allocation* nearest = nullptr;
  int64_t distance = INT64_MAX;
  for (const auto& [begin, block] : state.live) {
    const int64_t away = address < block.data       ? block.data - address
                         : address >= block.slack() ? address - block.slack()
                                                    : 0;
    if (away < distance) nearest = &block, distance = away;
  }
  if (nearest == nullptr) return "with no allocation";
  const bool is_before = address < nearest->data;
  return fmt::format("{} bytes {} an allocation of {} bytes",
                     is_before || address >= nearest->slack()
                         ? distance
                         : address - nearest->data,
                     is_before                     ? "before"
                     : address >= nearest->slack() ? "behind"
                                                   : "into",
                     nearest->bytes);
}

void* allocate_locked_memory(int64_t bytes) {
  CHECK(bytes >= 0);
  const int64_t rounded = std::max(round_up(bytes, kAlignment), kAlignment);
  auto* memory = static_cast<std::byte*>(
      std::aligned_alloc(kAlignment, static_cast<size_t>(rounded)));
  if (memory == nullptr)
    fail(ExitCode::kInternal,
         "out of memory: {} of page-locked memory asked for",
         human_bytes(static_cast<double>(bytes)));
  std::memset(memory, 0xFF, static_cast<size_t>(bytes));
  Ledger& state = ledger();
  const std::lock_guard lock(state.mutex);
  state.locked[memory] = bytes;
  return memory;
}

void release_locked_memory(void* memory) {
  if (memory == nullptr) return;
  Ledger& state = ledger();
  const std::lock_guard lock(state.mutex);
  if (state.locked.erase(static_cast<std::byte*>(memory)) == 1)
    std::free(memory);
}

bool is_locked_memory(const void* memory, int64_t bytes) {
  Ledger& state = ledger();
  const std::lock_guard lock(state.mutex);
  const auto* address = static_cast<const std::byte*>(memory);
  auto next = state.locked.upper_bound(address);
  if (next == state.locked.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second;
}

int64_t used_locked_bytes() {
  Ledger& state = ledger();
  const std::lock_guard lock(state.mutex);
  int64_t used = 0;
  for (const auto& [memory, bytes] : state.locked) used += bytes;
  return used;
}

}  // namespace syncopate::emulator
