// A read-only memory-mapped file, whose pages are loaded when first accessed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace syncopate {

// An access to a page that cannot be read ends the process with a line and code
// 74.
class MappedFile {
 public:
  // Errors: kInputMissing, kBadInput if it is not a regular file, kIoError.
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

  // Asks the kernel to start reading this range. Without this hint every page
  // is read on its own when first accessed, because read-ahead is off.
  void will_need(int64_t first_byte, int64_t num_bytes) const;

 private:
  std::string path_;
  std::span<const uint8_t> bytes_;
};

// An access to a page that cannot be read calls `end`, in another thread while
// the one that made the access waits. It must not return.
void end_unreadable_maps_by(void (*end)(const Error&));

// A mapped file and the XXH3-128 of each of its blocks.
struct MappedBlocks {
  std::shared_ptr<const MappedFile> file;
  int64_t block_bytes = 0;
  std::vector<std::string> digests;

  // The bytes of a block; the last one may be shorter.
  std::span<const uint8_t> block(int64_t index) const;
  // One line if the digest of a block does not match, which begins with the
  // path.
  std::optional<std::string> fault(int64_t index) const;
  // The faults of all blocks.
  std::vector<std::string> faults() const;
};

}  // namespace syncopate
