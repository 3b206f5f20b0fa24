// A large text file, plain or packed by gzip, as blocks of whole lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace syncopate {

class LineBlocks {
 public:
  // What is packed is told by its first bytes. Lines longer than `line_limit`
  // bytes are cut somewhere behind that many. Errors: kInputMissing, kIoError;
  // kBadInput where it is no regular file or the gzip data is damaged.
  LineBlocks(const fs::path& path, int64_t block_bytes, int64_t line_limit);
  ~LineBlocks();
  LineBlocks(const LineBlocks&) = delete;
  LineBlocks& operator=(const LineBlocks&) = delete;

  // About block_bytes; every line ends in '\n', also the file's last. Empty at
  // the end.
  void next(std::string& block);

  int64_t text_bytes() const { return text_bytes_; }  // unpacked, so far
  int64_t file_bytes() const { return file_bytes_; }  // as stored
  int64_t file_offset() const;                        // read, as stored

 private:
  size_t read(char* to, size_t num_bytes);

  std::string path_;
  int64_t block_bytes_, line_limit_;
  void* file_;               // gzFile
  std::string rest_;         // of a line that the last block did not hold
  bool is_cutting_ = false;  // the line of rest_ is too long
  int64_t text_bytes_ = 0, file_bytes_ = 0;
};

}  // namespace syncopate
