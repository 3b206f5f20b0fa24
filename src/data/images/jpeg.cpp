#include "data/images/jpeg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <cstdio>  // jpeglib.h uses FILE
#include <string>

#include <jerror.h>
#include <jpeglib.h>

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

// Returns whether the current warning is about a defect that some cameras and
// editors write into files with complete pixels, and that viewers ignore. Many
// bytes left at the end of a scan show that the decoder lost its place in it.
bool is_harmless(const jpeg_common_struct& file) {
  constexpr int kSpareBytes = 8;
  switch (file.err->msg_code) {
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
      return true;
    case JWRN_EXTRANEOUS_DATA: {
      const auto& decoder =
          reinterpret_cast<const jpeg_decompress_struct&>(file);
      const int* const parameters = file.err->msg_parm.i;  // bytes, marker
      const bool is_in_header = decoder.input_scan_number == 0;
      return is_in_header ||
             (parameters[1] == JPEG_EOI && parameters[0] <= kSpareBytes);
    }
    default:
      return false;
  }
}

// Returns whether the message is about a file that may well be whole.
bool is_about_kind(int message) {
  constexpr std::array kKinds = {
      JERR_ARITH_NOTIMPL,      JERR_BAD_PRECISION,        JERR_CCIR601_NOTIMPL,
      JERR_CONVERSION_NOTIMPL, JERR_FRACT_SAMPLE_NOTIMPL, JERR_NOTIMPL,
      JERR_NOT_COMPILED,       JERR_SOF_UNSUPPORTED};
  return std::find(kKinds.begin(), kKinds.end(), message) != kKinds.end();
}

}  // namespace

// The decoder of libjpeg-turbo. An error, or a warning that is not harmless,
// ends the call that run() made, by longjmp.
struct JpegDecoder::Library {
  jpeg_decompress_struct file{};
  jpeg_error_mgr errors{};
  std::jmp_buf end_of_call{};

  Library() {
    file.err = jpeg_std_error(&errors);
    errors.error_exit = [](j_common_ptr common) {
      std::longjmp(static_cast<Library*>(common->client_data)->end_of_call, 1);
    };
    // Warnings have level -1; others are traces.
    errors.emit_message = [](j_common_ptr common, int level) {
      if (level < 0 && !is_harmless(*common)) common->err->error_exit(common);
    };
    file.client_data = this;
    CHECK_MSG(run([&] { jpeg_create_decompress(&file); }), "libjpeg: {}",
              message());
  }
  ~Library() { jpeg_destroy_decompress(&file); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Returns whether `call` reached its end. If not, none of its objects is
  // destroyed, so it must not create any that need it.
  template <typename Call>
  bool run(const Call& call) {
    if (setjmp(end_of_call) != 0) return false;
    call();
    return true;
  }

  std::string message() {
    std::array<char, JMSG_LENGTH_MAX> text{};
    errors.format_message(reinterpret_cast<j_common_ptr>(&file), text.data());
    return text.data();
  }

  [[noreturn]] void refuse(const fs::path& path) {
    fail(ExitCode::kBadInput, "{}: {}: {}", path.string(),
         is_about_kind(errors.msg_code) ? "a JPEG of a kind that is not read"
                                        : "not a whole JPEG",
         message());
  }
};

JpegDecoder::JpegDecoder() : library_(std::make_unique<Library>()) {}

JpegDecoder::~JpegDecoder() = default;

void JpegDecoder::read_header(std::string_view bytes, const fs::path& path) {
  if (bytes.empty())
    fail(ExitCode::kBadInput, "{}: the file is empty", path.string());
  jpeg_decompress_struct& file = library_->file;
  const bool is_read = library_->run([&] {
    jpeg_abort_decompress(&file);  // an earlier file may have failed
    jpeg_mem_src(&file, reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
    jpeg_read_header(&file, TRUE);
  });
  if (!is_read) library_->refuse(path);
  const int64_t width = file.image_width, height = file.image_height;
  if (width < 1 || height < 1 || width * height > kPixelLimit)
    fail(ExitCode::kBadInput,
         "{}: an image of {} x {}, expected at most {} "
         "pixels",
         path.string(), height, width, kPixelLimit);
}

void JpegDecoder::decode_pixels(const fs::path& path, int denominator) {
  jpeg_decompress_struct& file = library_->file;
  const bool is_cmyk =
      file.jpeg_color_space == JCS_CMYK || file.jpeg_color_space == JCS_YCCK;
  const auto shortened = [&](JDIMENSION side) {
    return (int64_t{side} + denominator - 1) / denominator;
  };
  const int64_t width = shortened(file.image_width);
  const int64_t height = shortened(file.image_height);
  const auto num_pixels = static_cast<size_t>(width * height);
  pixels_.resize(num_pixels * kChannels);
  if (is_cmyk) inks_.resize(num_pixels * 4);
  uint8_t* const out = is_cmyk ? inks_.data() : pixels_.data();
  const bool is_decoded = library_->run([&] {
    file.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    file.scale_num = 1;
    file.scale_denom = static_cast<unsigned>(denominator);
    jpeg_start_decompress(&file);
    CHECK(file.output_width == width && file.output_height == height);
    const auto row_bytes = static_cast<size_t>(width * file.output_components);
    while (file.output_scanline < file.output_height) {
      JSAMPROW row = out + file.output_scanline * row_bytes;
      jpeg_read_scanlines(&file, &row, 1);
    }
    jpeg_finish_decompress(&file);
  });
  if (!is_decoded) library_->refuse(path);
  if (!is_cmyk) return;
  for (size_t i = 0; i < num_pixels; ++i)
    for (size_t c = 0; c < 3; ++c)
      pixels_[3 * i + c] = static_cast<uint8_t>(
          (inks_[4 * i + c] * inks_[4 * i + 3] + 127) / 255);
}

JpegDecoder::Image JpegDecoder::decode(const fs::path& path,
                                       const ChooseMap& choose) {
  const std::string bytes = read_file(path);
  read_header(bytes, path);
  const jpeg_decompress_struct& file = library_->file;
  const ImageMap map = choose(file.image_height, file.image_width);
  const int denominator = choose_denominator(map);
  decode_pixels(path, denominator);
  return {pixels_.data(), file.output_height, file.output_width,
          scaled(map, denominator)};
}

}  // namespace syncopate
