// Reads a large text file, plain or gzipped, as blocks of whole lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace syncopate {

class LineBlocks {
 public:
  // Recognises gzip by its first bytes. Lines longer than `line_limit` bytes
  // are truncated to some length above it. Errors: kInputMissing, kIoError;
  // kBadInput if it is not a regular file or the gzip data is damaged.
  LineBlocks(const fs::path& path, int64_t block_bytes, int64_t line_limit);
  ~LineBlocks();
  LineBlocks(const LineBlocks&) = delete;
  LineBlocks& operator=(const LineBlocks&) = delete;

  // Reads about block_bytes. Every line ends in '\n', including the last one of
  // the file. Empty at the end of the file.
  void next(std::string& block);

  int64_t text_bytes() const { return text_bytes_; }  // decompressed so far
  int64_t file_bytes() const { return file_bytes_; }  // as stored
  int64_t file_offset() const;                        // bytes read, as stored

 private:
  size_t read(char* to, size_t num_bytes);

  std::string path_;
  int64_t block_bytes_, line_limit_;
  void* file_;               // gzFile
  std::string rest_;         // the incomplete last line of the block
  bool is_cutting_ = false;  // the line in rest_ is too long
  int64_t text_bytes_ = 0, file_bytes_ = 0;
};

}  // namespace syncopate
