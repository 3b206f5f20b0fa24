// Reads a data file with bounds checks. Every error is one line that names the
// file and the offset.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "data/gunzip.h"

namespace syncopate {

class ByteReader {
 public:
  // Reads the whole file. If its name ends in .gz, the content is decompressed
  // on demand, and offsets count decompressed bytes.
  explicit ByteReader(const fs::path& path);
  ~ByteReader();

  const std::string& path() const { return path_; }
  int64_t offset() const { return offset_; }
  // Bytes from offset() to the end; an upper bound if the file is gzipped.
  int64_t left_at_most() const;

  // Fails if fewer bytes are left. `what` names them in the message.
  void read(std::span<uint8_t> out, const char* what);
  uint32_t read_be32(const char* what);
  // Fails if anything follows, or if the gzip checksum does not match.
  void expect_end();

  // Error(kBadInput) "PATH: offset 4 (0x4): WHAT".
  [[noreturn]] void fail_at(int64_t offset, const std::string& what) const;

 private:
  // Up to out.size() bytes; fewer only at the end.
  size_t take(std::span<uint8_t> out);

  std::string path_;
  std::string content_;  // as stored on disk
  int64_t offset_ = 0;
  std::unique_ptr<Gunzip> gunzip_;  // null if content_ is not compressed
  std::string_view packed_;         // of content_, what gunzip_ has not used
};

// Whether `path` or `path`.gz exists.
bool exists_plain_or_packed(const fs::path& path);
// Returns `path`, or with .gz added if only that exists. Error(kInputMissing).
fs::path plain_or_packed(const fs::path& path);
// Returns data.path. Error(kInputMissing), with the key, if nothing is there.
// `what` is expected there: a "folder" or "file".
fs::path existing_path(const std::string& path, const char* what = "folder");

// Fails if the product of `factors` (each at least 1) elements exceeds the
// memory that this process has left; to be called before they are allocated.
// The message begins with `origin`.
void check_memory(const std::string& origin,
                  std::span<const int64_t> factors,
                  int64_t elem_bytes);

}  // namespace syncopate
