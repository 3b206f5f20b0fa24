#include "data/images/jpeg.h"

#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"

namespace syncopate {
namespace {

constexpr int64_t kChannels = 3;
// More than any photograph has, but less than would exhaust memory.
constexpr int64_t kPixelLimit = int64_t{1} << 29;

// The smallest denominator of a scale that keeps a pixel for each one read:
// what libjpeg-turbo has vector code for. Eighths between them take longer
// than the whole size (500 x 375: 7/8 1.5 ms, 8/8 0.9 ms, 4/8 0.8 ms).
int choose_denominator(const ImageMap& map) {
  const double across = std::hypot(map.m[0], map.m[3]);
  const double down = std::hypot(map.m[1], map.m[4]);
  constexpr double kSlack = 1e-4;  // of rounding in the map
  int denominator = 8;
  while (denominator > 1 && std::min(across, down) < denominator * (1 - kSlack))
    denominator /= 2;
  return denominator;
}

// Pixel centres: u + 1/2 of the whole image is (u' + 1/2) * denominator.
ImageMap scaled(ImageMap map, int denominator) {
  const float factor = 1.0F / static_cast<float>(denominator);
  for (const int row : {0, 3}) {
    map.m[row] *= factor;
    map.m[row + 1] *= factor;
    map.m[row + 2] = (map.m[row + 2] + 0.5F) * factor - 0.5F;
  }
  return map;
}

// Warnings of the library about files with complete pixels: defects written by
// some cameras and editors, which every viewer ignores.
bool is_harmless(std::string_view text) {
  return text.find("extraneous bytes before marker") !=
             std::string_view::npos ||
         text.find("unknown JFIF revision") != std::string_view::npos ||
         text.find("Unknown Adobe color transform") != std::string_view::npos;
}

// The library's message without the function name that precedes it.
std::string complaint(tjhandle handle) {
  std::string text = tjGetErrorStr2(handle);
  const size_t colon = text.find("(): ");
  return colon == std::string::npos ? text : text.substr(colon + 4);
}

void refuse_if_damaged(tjhandle handle, const fs::path& path) {
  const std::string text = complaint(handle);
  if (tjGetErrorCode(handle) == TJERR_WARNING && is_harmless(text)) return;
  fail(ExitCode::kBadInput, "{}: not a whole JPEG: {}", path.string(), text);
}

}  // namespace

JpegDecoder::JpegDecoder() : handle_(tjInitDecompress()) {
  CHECK_MSG(handle_ != nullptr, "tjInitDecompress: {}",
            tjGetErrorStr2(nullptr));
}

JpegDecoder::~JpegDecoder() {
  tjDestroy(handle_);
}

JpegDecoder::Header JpegDecoder::read_header(std::string_view bytes,
                                             const fs::path& path) {
  if (bytes.empty())
    fail(ExitCode::kBadInput, "{}: the file is empty", path.string());
  Header header;
  int subsampling = 0, colorspace = 0;
  if (tjDecompressHeader3(handle_,
                          reinterpret_cast<const unsigned char*>(bytes.data()),
                          bytes.size(), &header.width, &header.height,
                          &subsampling, &colorspace) != 0)
    refuse_if_damaged(handle_, path);
  if (header.width < 1 || header.height < 1 ||
      int64_t{header.width} * header.height > kPixelLimit)
    fail(ExitCode::kBadInput,
         "{}: an image of {} x {}, expected at most {} "
         "pixels",
         path.string(), header.height, header.width, kPixelLimit);
  header.is_cmyk = colorspace == TJCS_CMYK || colorspace == TJCS_YCCK;
  return header;
}

void JpegDecoder::decode_pixels(std::string_view bytes,
                                const fs::path& path,
                                const Header& header,
                                int width,
                                int height) {
  const auto num_pixels = static_cast<size_t>(int64_t{width} * height);
  pixels_.resize(num_pixels * kChannels);
  if (header.is_cmyk) inks_.resize(num_pixels * 4);
  if (tjDecompress2(
          handle_, reinterpret_cast<const unsigned char*>(bytes.data()),
          bytes.size(), header.is_cmyk ? inks_.data() : pixels_.data(), width,
          0, height, header.is_cmyk ? TJPF_CMYK : TJPF_RGB, 0) != 0)
    refuse_if_damaged(handle_, path);
  if (!header.is_cmyk) return;
  for (size_t i = 0; i < num_pixels; ++i)
    for (size_t c = 0; c < 3; ++c)
      pixels_[3 * i + c] = static_cast<uint8_t>(
          (inks_[4 * i + c] * inks_[4 * i + 3] + 127) / 255);
}

JpegDecoder::Image JpegDecoder::decode(const fs::path& path,
                                       const ChooseMap& choose) {
  const std::string bytes = read_file(path);
  const Header header = read_header(bytes, path);
  const ImageMap map = choose(header.height, header.width);
  const int denominator = choose_denominator(map);
  const int width = (header.width + denominator - 1) / denominator;
  const int height = (header.height + denominator - 1) / denominator;
  decode_pixels(bytes, path, header, width, height);
  return {pixels_.data(), height, width, scaled(map, denominator)};
}

}  // namespace syncopate
