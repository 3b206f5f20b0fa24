#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
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

}  // namespace syncopate::emulator
