// Decompresses gzip data (RFC 1952) piece by piece. Files may consist of
// several members, as parallel compressors write them, and end in zero bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct z_stream_s;

namespace syncopate {

class Gunzip {
 public:
  // Errors are kBadInput "ORIGIN: offset 4 (0x4): what", where the offset
  // counts packed bytes.
  explicit Gunzip(std::string origin);
  ~Gunzip();

  // Decompresses the beginning of `packed`, which continues the bytes of
  // earlier calls, and removes it from there. Returns the number of bytes
  // written: fewer than `out` holds only if all of `packed` was used. Fails if
  // the data are damaged or if something else follows a member.
  size_t unpack(std::string_view& packed, std::span<char> out);
  // Fails if the packed bytes so far end within a member.
  void expect_end() const;

  int64_t packed_bytes() const { return packed_bytes_; }  // used so far

 private:
  enum class Place : uint8_t { kMember, kBetweenMembers, kPadding };

  // Skips zero bytes; begins a member if there are none.
  void leave_member(std::string_view& packed);
  size_t inflate_some(std::string_view& packed, std::span<char> out);
  [[noreturn]] void refuse(const std::string& what) const;

  std::string origin_;
  std::unique_ptr<z_stream_s> stream_;
  Place place_ = Place::kMember;
  int64_t packed_bytes_ = 0;
};

}  // namespace syncopate
