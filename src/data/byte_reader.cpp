#include "data/byte_reader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/memory_left.h"
#include "base/text.h"

namespace syncopate {

ByteReader::ByteReader(const fs::path& path)
    : path_(path.string()), content_(read_file(path)) {
  if (content_.empty()) fail_at(0, "the file is empty");
  if (path.extension() == ".gz") {
    gunzip_ = std::make_unique<Gunzip>(path_);
    packed_ = content_;
  }
}

ByteReader::~ByteReader() = default;

int64_t ByteReader::left_at_most() const {
  const auto stored = static_cast<int64_t>(content_.size());
  constexpr int64_t kDeflateLimit = 1032;  // zlib's technical details
  return gunzip_ ? stored * kDeflateLimit : stored - offset_;
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
}

size_t ByteReader::take(std::span<uint8_t> out) {
  size_t got = 0;
  if (gunzip_) {
    got = gunzip_->unpack(packed_,
                          {reinterpret_cast<char*>(out.data()), out.size()});
    if (got < out.size()) gunzip_->expect_end();
  } else {
    const auto from = static_cast<size_t>(offset_);
    got = std::min(out.size(), content_.size() - from);
    if (got > 0) std::memcpy(out.data(), content_.data() + from, got);
  }
  offset_ += static_cast<int64_t>(got);
  return got;
}

void ByteReader::fail_at(int64_t offset, const std::string& what) const {
  fail(ExitCode::kBadInput, "{}: offset {} ({:#x}){}: {}", path_, offset,
       offset, gunzip_ ? " of the unpacked bytes" : "", what);
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
  const MemoryLeft left = host_memory_left(1);
  double bytes = static_cast<double>(elem_bytes);
  std::string product;
  for (const int64_t factor : factors) {
    CHECK_MSG(factor >= 1, "{}: factor {}", origin, factor);
    bytes *= static_cast<double>(factor);
    product += fmt::format("{}{}", product.empty() ? "" : " x ", factor);
  }
  if (bytes > static_cast<double>(left.bytes))
    fail(ExitCode::kBadInput, "{}: {} values need {}, and {} has {} left",
         origin, product, human_bytes(bytes), left.limit,
         human_bytes(static_cast<double>(left.bytes)));
}

}  // namespace syncopate
