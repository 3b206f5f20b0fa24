#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "emulator/engine.h"
#include "emulator/padding.h"
#include "emulator/region.h"

namespace syncopate::emulator {
namespace {

constexpr size_t kPagesBytes =
    (kMaxSharedBytes + kPageBytes - 1) / kPageBytes * kPageBytes;
constexpr size_t kGuardBytes = 16 * kPageBytes;
constexpr int64_t kLeadBytes = 256;  // what is checked before the data
constexpr int64_t kAlignment = 16;

}  // namespace

SharedMemory::SharedMemory() {
  void* base = mmap(nullptr, kPagesBytes + 2 * kGuardBytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    fail_errno(ExitCode::kInternal, "emulator", "shared memory");
  pages_ = static_cast<std::byte*>(base) + kGuardBytes;
  CHECK(mprotect(pages_, kPagesBytes, PROT_READ | PROT_WRITE) == 0);
  data_ = pages_ + kPagesBytes;
}

SharedMemory::~SharedMemory() {
  munmap(pages_ - kGuardBytes, kPagesBytes + 2 * kGuardBytes);
}

void SharedMemory::poison(int64_t bytes) {
  std::byte* const end = pages_ + kPagesBytes;
  std::byte* const data =
      end - (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::byte* const lead = std::max(pages_, data - kLeadBytes);
  std::memset(data, 0xFF, static_cast<size_t>(bytes));
  fill_pattern(lead, data);
  fill_pattern(data + bytes, end);
  data_ = data;
  bytes_ = bytes;
}

std::string SharedMemory::damage() const {
  const std::byte* const end = pages_ + kPagesBytes;
  const std::byte* const lead =
      std::max<const std::byte*>(pages_, data_ - kLeadBytes);
  const std::byte* at = first_damage(lead, data_);
  if (at != data_)
    return fmt::format("write {} bytes before the {} bytes of shared memory",
                       data_ - at, bytes_);
  at = first_damage(data_ + bytes_, end);
  if (at == end) return {};
  return fmt::format("write {} bytes behind the {} bytes of shared memory",
                     at - data_ - bytes_, bytes_);
}

std::string SharedMemory::guard_hit(const std::byte* address) const {
  const std::byte* const end = pages_ + kPagesBytes;
  if (address >= end && address < end + kGuardBytes)
    return fmt::format("access {} bytes behind the {} bytes of shared memory",
                       address - data_ - bytes_, bytes_);
  if (address < pages_ && address >= pages_ - kGuardBytes)
    return fmt::format("access {} bytes before the {} bytes of shared memory",
                       data_ - address, bytes_);
  return {};
}

void Engine::start_copy(std::byte* to,
                        const std::byte* from,
                        int bytes,
                        bool is_in) {
  CHECK_MSG(
      std::bit_cast<uintptr_t>(to) % static_cast<unsigned>(bytes) == 0 &&
          std::bit_cast<uintptr_t>(from) % static_cast<unsigned>(bytes) == 0,
      "a copy of {} bytes at no multiple of them", bytes);
  CHECK_MSG(to >= block_->shared.data() &&
                to + bytes <= block_->shared.data() + block_->shared.bytes(),
            "a copy to {} bytes past the start of {} bytes of shared memory",
            to - block_->shared.data(), block_->shared.bytes());
  Lane& lane = block_->lanes[current_];
  std::memset(to, 0xFF, static_cast<size_t>(bytes));
  lane.copies.push_back({to, is_in ? from : nullptr, bytes, lane.num_groups});
}

void Engine::commit_copies() {
  ++block_->lanes[current_].num_groups;
}

void Engine::wait_for_copies(int num_pending) {
  Lane& lane = block_->lanes[current_];
  std::erase_if(lane.copies, [&](const Copy& copy) {
    if (copy.group >= lane.num_groups - num_pending) return false;
    const auto bytes = static_cast<size_t>(copy.bytes);
    if (copy.from == nullptr)
      std::memset(copy.to, 0, bytes);
    else
      std::memcpy(copy.to, copy.from, bytes);
    return true;
  });
}

void start_copy(void* to, const void* from, int bytes, bool is_in) {
  Engine::of_this_thread().start_copy(static_cast<std::byte*>(to),
                                      static_cast<const std::byte*>(from),
                                      bytes, is_in);
}

void commit_copies() {
  Engine::of_this_thread().commit_copies();
}

void wait_for_copies(int num_pending) {
  Engine::of_this_thread().wait_for_copies(num_pending);
}

}  // namespace syncopate::emulator
