#include "data/byte_reader.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

#include "base/check.h"
#include "base/text.h"

namespace syncopate {

struct ByteReader::Gzip {
  z_stream stream{};
  bool ended = false;

  Gzip() {
    constexpr int kGzipOnly = 16;  // zlib.h, inflateInit2: no zlib header
    CHECK(inflateInit2(&stream, MAX_WBITS + kGzipOnly) == Z_OK);
  }
  ~Gzip() { inflateEnd(&stream); }
};

ByteReader::ByteReader(const fs::path& path)
    : path_(path.string()), content_(read_file(path)) {
  if (content_.empty()) fail_at(0, "the file is empty");
  if (path.extension() == ".gz") gzip_ = std::make_unique<Gzip>();
}

ByteReader::~ByteReader() = default;

int64_t ByteReader::left_at_most() const {
  const auto stored = static_cast<int64_t>(content_.size());
  constexpr int64_t kDeflateLimit = 1032;  // zlib's technical details
  return gzip_ ? stored * kDeflateLimit : stored - offset_;
}

void ByteReader::read(std::span<uint8_t> out, const char* what) {
  const size_t got = take(out);
  if (got < out.size())
    fail_at(offset_, fmt::format("the file ends, expected {} more bytes of {}",
                                 out.size() - got, what));
}

uint32_t ByteReader::read_be32(const char* what) {
  std::array<uint8_t, 4> bytes{};
  read(bytes, what);
  uint32_t value = 0;
  for (const uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

void ByteReader::expect_end() {
  std::array<uint8_t, 1> byte{};
  const int64_t end = offset_;
  if (take(byte) > 0) fail_at(end, "more bytes follow, expected the end");
  if (gzip_ && gzip_->stream.total_in < content_.size())
    fail_packed("bytes follow the gzip data, expected the end");
}

size_t ByteReader::take(std::span<uint8_t> out) {
  size_t got = 0;
  if (gzip_) {
    got = unpack(out);
  } else {
    const auto from = static_cast<size_t>(offset_);
    got = std::min(out.size(), content_.size() - from);
    if (got > 0) std::memcpy(out.data(), content_.data() + from, got);
  }
  offset_ += static_cast<int64_t>(got);
  return got;
}

size_t ByteReader::unpack(std::span<uint8_t> out) {
  z_stream& stream = gzip_->stream;
  size_t done = 0;
  while (done < out.size() && !gzip_->ended) {
    const size_t consumed = stream.total_in;
    stream.next_in = reinterpret_cast<Bytef*>(content_.data()) + consumed;
    stream.avail_in = static_cast<uInt>(
        std::min<size_t>(content_.size() - consumed, UINT_MAX));
    stream.next_out = out.data() + done;
    stream.avail_out =
        static_cast<uInt>(std::min<size_t>(out.size() - done, UINT_MAX));
    const uInt room = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    done += room - stream.avail_out;
    if (status == Z_STREAM_END) {
      gzip_->ended = true;
    } else if (status == Z_BUF_ERROR) {
      fail_packed("the gzip data ends early");
    } else if (status != Z_OK) {
      fail_packed(fmt::format("damaged gzip data: {}", stream.msg != nullptr
                                                           ? stream.msg
                                                           : "unreadable"));
    }
  }
  return done;
}

void ByteReader::fail_at(int64_t offset, const std::string& what) const {
  fail(ExitCode::kBadInput, "{}: offset {} ({:#x}){}: {}", path_, offset,
       offset, gzip_ ? " of the unpacked bytes" : "", what);
}

void ByteReader::fail_packed(const std::string& what) const {
  const int64_t at = static_cast<int64_t>(gzip_->stream.total_in);
  fail(ExitCode::kBadInput, "{}: offset {} ({:#x}): {}", path_, at, at, what);
}

bool exists_plain_or_packed(const fs::path& path) {
  return fs::exists(path) || fs::exists(fs::path(path) += ".gz");
}

fs::path plain_or_packed(const fs::path& path) {
  const fs::path packed = fs::path(path) += ".gz";
  if (fs::exists(path)) return path;
  if (fs::exists(packed)) return packed;
  fail(ExitCode::kInputMissing, "{}: not found, with or without .gz",
       path.string());
}

fs::path existing_path(const std::string& path, const char* what) {
  if (!fs::exists(path))
    fail(ExitCode::kInputMissing, "data.path: {}: no such {}", path, what);
  return path;
}

void check_memory(const std::string& origin,
                  std::span<const int64_t> factors,
                  int64_t elem_bytes) {
  const auto memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<double>(sysconf(_SC_PAGESIZE));
  double bytes = static_cast<double>(elem_bytes);
  std::string product;
  for (const int64_t factor : factors) {
    CHECK_MSG(factor >= 1, "{}: factor {}", origin, factor);
    bytes *= static_cast<double>(factor);
    product += fmt::format("{}{}", product.empty() ? "" : " x ", factor);
  }
  if (bytes > memory)
    fail(ExitCode::kBadInput, "{}: {} values need {}, this machine has {}",
         origin, product, human_bytes(bytes), human_bytes(memory));
}

}  // namespace syncopate
