#include "ops/jpeg.h"

#include <cstring>

#include "ops/bodies.h"

namespace syncopate {
namespace {

constexpr int64_t kPixelLimit = int64_t{1} << 26;

enum Marker : uint8_t {
  kSof0 = 0xC0,  // baseline
  kDht = 0xC4,
  kSof15 = 0xCF,
  kRst0 = 0xD0,
  kRst7 = 0xD7,
  kSoi = 0xD8,
  kEoi = 0xD9,
  kSos = 0xDA,
  kApp14 = 0xEE,
};

using Bytes = std::string_view;

int byte_at(Bytes bytes, size_t at) {
  return static_cast<uint8_t>(bytes[at]);
}

int word_at(Bytes bytes, size_t at) {
  return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1);
}

// Parses a baseline frame header: precision, height, width, then id, sampling
// factors and table of each component.
std::optional<JpegSize> read_frame(Bytes frame) {
  constexpr size_t kComponents = 3;
  if (frame.size() != 6 + 3 * kComponents || byte_at(frame, 0) != 8 ||
      byte_at(frame, 5) != kComponents)
    return std::nullopt;
  const JpegSize size{word_at(frame, 1), word_at(frame, 3)};
  if (size.H == 0 || size.W == 0 || size.H * size.W > kPixelLimit)
    return std::nullopt;
  const int luma = byte_at(frame, 7);
  if (luma != 0x11 && luma != 0x21 && luma != 0x22) return std::nullopt;
  if (byte_at(frame, 10) != 0x11 || byte_at(frame, 13) != 0x11)
    return std::nullopt;
  // Component ids by which libjpeg recognises data stored as RGB.
  if (byte_at(frame, 6) == 'R' && byte_at(frame, 9) == 'G') return std::nullopt;
  return size;
}

// Adobe's marker specifies whether three components are YCbCr (1) or RGB (0).
bool is_other_than_ycc(Bytes app14) {
  return app14.size() >= 12 && app14.starts_with("Adobe") &&
         byte_at(app14, 11) != 1;
}

// Returns whether the coded data of the scan extend to the end-of-image marker.
bool is_last_scan(Bytes coded) {
  for (size_t at = 0;;) {
    at = coded.find('\xFF', at);
    if (at == Bytes::npos || at + 1 == coded.size()) return false;
    const int next = byte_at(coded, at + 1);
    if (next == kEoi) return true;
    const bool is_data = next == 0 || (next >= kRst0 && next <= kRst7);
    if (!is_data && next != 0xFF) return false;
    at += next == 0xFF ? 1 : 2;
  }
}

}  // namespace

std::optional<JpegSize> plain_jpeg_size(Bytes file) {
  if (file.size() < 4 || word_at(file, 0) != (0xFF00 | kSoi))
    return std::nullopt;
  std::optional<JpegSize> size;
  for (size_t at = 2; at + 4 <= file.size();) {
    if (byte_at(file, at) != 0xFF) return std::nullopt;
    const int marker = byte_at(file, at + 1);
    if (marker == 0xFF) {  // fill bytes may precede a marker
      ++at;
      continue;
    }
    const bool has_length =
        marker >= kSof0 && marker != kEoi && (marker < kRst0 || marker > kSoi);
    const auto length = static_cast<size_t>(word_at(file, at + 2));
    if (!has_length || length < 2 || length > file.size() - at - 2)
      return std::nullopt;
    const Bytes segment = file.substr(at + 4, length - 2);
    at += 2 + length;
    if (marker == kSos) {
      const bool has_all = size && !segment.empty() && segment[0] == 3;
      return has_all && is_last_scan(file.substr(at)) ? size : std::nullopt;
    }
    if (marker == kSof0) {
      if (size) return std::nullopt;
      size = read_frame(segment);
      if (!size) return std::nullopt;
    } else if (marker <= kSof15 && marker != kDht) {
      return std::nullopt;  // other kinds of frames, arithmetic coding
    } else if (marker == kApp14 && is_other_than_ycc(segment)) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool can_decode_jpegs(Context& context, int64_t batch) {
  return bodies_of(context).can_decode_jpegs(context, batch);
}

void decode_jpegs(Context& context, std::span<JpegImage> images) {
  if (images.empty()) return;
  for (const JpegImage& image : images)
    CHECK(!image.file.empty() && image.size.H > 0 && image.size.W > 0 &&
          image.pixels != nullptr);
  bodies_of(context).decode_jpegs(context, images);
}

}  // namespace syncopate
