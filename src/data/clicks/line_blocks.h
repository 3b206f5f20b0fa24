// Reads a large text file, plain or gzipped, as blocks of whole lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"
#include "data/gunzip.h"

namespace syncopate {

class LineBlocks {
 public:
  // Recognises gzip by its first bytes. Lines longer than `line_limit` bytes
  // are truncated to some length above it. Errors: kInputMissing, kIoError;
  // kBadInput if it is not a regular file, if the gzip data is damaged or if
  // it is followed by anything but zero bytes.
  LineBlocks(const fs::path& path, int64_t block_bytes, int64_t line_limit);

  // Reads about block_bytes. Every line ends in '\n', including the last one of
  // the file. Empty at the end of the file.
  void next(std::string& block);

  int64_t text_bytes() const { return text_bytes_; }    // decompressed so far
  int64_t file_bytes() const { return file_.bytes(); }  // as stored
  int64_t file_offset() const;  // bytes used so far, as stored

 private:
  void refill();
  size_t read(char* to, size_t num_bytes);

  InputFile file_;
  int64_t block_bytes_, line_limit_;
  std::string buffer_;
  std::string_view left_;           // of buffer_, what was not used
  std::unique_ptr<Gunzip> gunzip_;  // null if the file is not packed
  std::string rest_;                // the incomplete last line of the block
  bool is_cutting_ = false;         // the line in rest_ is too long
  int64_t text_bytes_ = 0, read_bytes_ = 0;
};

}  // namespace syncopate
