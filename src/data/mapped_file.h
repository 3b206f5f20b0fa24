// A file in the address space, read-only: pages come as they are touched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/file.h"

namespace syncopate {

class MappedFile {
 public:
  // Errors: kInputMissing, kBadInput if it is no regular file, kIoError.
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

  // Asks the system to begin to read these bytes as one piece. Without it each
  // page is read alone when it is touched, since the order is random.
  void will_need(int64_t first_byte, int64_t num_bytes) const;

 private:
  std::string path_;
  std::span<const uint8_t> bytes_;
};

}  // namespace syncopate
