#include "data/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <climits>

#include "base/check.h"

namespace syncopate {

Gunzip::Gunzip(std::string origin)
    : origin_(std::move(origin)), stream_(std::make_unique<z_stream>()) {
  constexpr int kGzipOnly = 16;  // zlib.h, inflateInit2: no zlib header
  CHECK(inflateInit2(stream_.get(), MAX_WBITS + kGzipOnly) == Z_OK);
}

Gunzip::~Gunzip() {
  inflateEnd(stream_.get());
}

size_t Gunzip::unpack(std::string_view& packed, std::span<char> out) {
  size_t done = 0;
  while (done < out.size() && !packed.empty()) {
    if (place_ == Place::kMember)
      done += inflate_some(packed, out.subspan(done));
    else
      leave_member(packed);
  }
  return done;
}

void Gunzip::leave_member(std::string_view& packed) {
  constexpr char kFirstOfMember = '\x1f';
  const size_t zeros = std::min(packed.find_first_not_of('\0'), packed.size());
  packed.remove_prefix(zeros);
  packed_bytes_ += static_cast<int64_t>(zeros);
  if (zeros > 0) place_ = Place::kPadding;
  if (packed.empty()) return;
  if (place_ == Place::kPadding)
    refuse("bytes follow the gzip data and its zero bytes, expected the end");
  if (packed.front() != kFirstOfMember)
    refuse("bytes follow the gzip data, expected another member or the end");
  CHECK(inflateReset(stream_.get()) == Z_OK);
  place_ = Place::kMember;
}

size_t Gunzip::inflate_some(std::string_view& packed, std::span<char> out) {
  const auto available =
      static_cast<uInt>(std::min<size_t>(packed.size(), UINT_MAX));
  const auto room = static_cast<uInt>(std::min<size_t>(out.size(), UINT_MAX));
  z_stream& stream = *stream_;
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // read only
  stream.avail_in = available;
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = room;
  const int status = inflate(&stream, Z_NO_FLUSH);
  const uInt used = available - stream.avail_in;
  packed.remove_prefix(used);
  packed_bytes_ += used;
  if (status == Z_STREAM_END)
    place_ = Place::kBetweenMembers;
  else if (status != Z_OK)
    refuse(fmt::format("damaged gzip data: {}",
                       stream.msg != nullptr ? stream.msg : "unreadable"));
  return room - stream.avail_out;
}

void Gunzip::expect_end() const {
  if (place_ == Place::kMember) refuse("the gzip data ends early");
}

void Gunzip::refuse(const std::string& what) const {
  fail(ExitCode::kBadInput, "{}: offset {} ({:#x}): {}", origin_, packed_bytes_,
       packed_bytes_, what);
}

}  // namespace syncopate
