// A data file's bytes behind bounds checks: every complaint is one line that
// names the file and the offset.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"

namespace syncopate {

class ByteReader {
 public:
  // Reads the whole file; if its name ends in .gz, the content is unpacked as
  // it is asked for, and offsets count unpacked bytes.
  explicit ByteReader(const fs::path& path);
  ~ByteReader();

  const std::string& path() const { return path_; }
  int64_t offset() const { return offset_; }
  // Bytes from offset() to the end; for .gz an upper bound.
  int64_t left_at_most() const;

  // Fails where fewer bytes are left. `what` names them in the message.
  void read(std::span<uint8_t> out, const char* what);
  uint32_t read_be32(const char* what);
  // Fails if anything follows, or if the gzip check sum does not hold.
  void expect_end();

  // Error(kBadInput) "PATH: offset 4 (0x4): WHAT".
  [[noreturn]] void fail_at(int64_t offset, const std::string& what) const;

 private:
  struct Gzip;

  // Up to out.size() bytes; fewer only at the end.
  size_t take(std::span<uint8_t> out);
  size_t unpack(std::span<uint8_t> out);
  [[noreturn]] void fail_packed(const std::string& what) const;

  std::string path_;
  std::string content_;  // as on disk
  int64_t offset_ = 0;
  std::unique_ptr<Gzip> gzip_;  // null: content_ is not packed
};

// Refuses, before anything is allocated, what this machine cannot hold.
// `origin` starts the line. Every factor is at least 1.
void check_memory(const std::string& origin,
                  std::span<const int64_t> factors,
                  int64_t elem_bytes);

}  // namespace syncopate
