// The address range of emulated device memory and what the host's page
// protection says about it. What is not mapped belongs to an empty file, so
// that it faults (SIGBUS) even where protection was lifted; what is mapped is
// opened chunk by chunk when code inside an Access first touches it, and
// closed when the last Access ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace syncopate::emulator {

inline constexpr int64_t kPageBytes = 4096;
// Larger ones need fewer faults, smaller ones fewer changed pages: a fault
// costs about as much as the change of 64 pages.
inline constexpr int64_t kChunkBytes = 64 * kPageBytes;

// What is opened at a fault: a chunk, or a page while pages are counted.
int64_t opened_bytes();

// Counts pages of device memory at their first read and first write since the
// outermost Access began; what is written first and then read counts as
// written only. Only outside of every Access.
void count_pages(bool is_on);
struct PageCounts {
  int64_t read = 0, written = 0;
};
PageCounts counted_pages();

// Aligned to chunks.
std::byte* region_begin();
std::byte* region_end();

// Whole pages. Fresh memory, closed; back to a guard.
void map_memory(std::byte* begin, int64_t bytes);
void unmap_memory(std::byte* begin, int64_t bytes);

// First bytes of what was opened since the outermost Access began.
std::vector<std::byte*> opened_chunks();

// "12 bytes behind an allocation of 400 bytes"; for reports of faults.
std::string nearest_allocation(const std::byte* address);

// Ends the process (exit code 70) with "emulator: LINE" on standard error.
[[noreturn]] void report_and_exit(const std::string& line);

// What the calling thread does inside its Access, for reports of faults.
const std::string& current_work();
class WorkName {
 public:
  explicit WorkName(const std::string& name);
  ~WorkName();
  WorkName(const WorkName&) = delete;
  WorkName& operator=(const WorkName&) = delete;

 private:
  const std::string* outer_;
};

}  // namespace syncopate::emulator
