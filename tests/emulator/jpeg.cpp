// The emulated GPU's decoder of JPEG files: libjpeg-turbo, in the order of the
// stream. What is damaged inside passes, as it may on a GPU.
#include <turbojpeg.h>

#include <vector>

#include "emulator/emulator.h"
#include "ops/bodies.h"

namespace syncopate::cuda {
namespace {

// Opens the emulated memory before the library writes it (library_ops.cpp).
void open(uint8_t* pixels, int64_t bytes) {
  constexpr int64_t kPage = 4096;
  volatile uint8_t* memory = pixels;
  for (int64_t at = 0; at < bytes; at += kPage) memory[at] = 0;
  memory[bytes - 1] = 0;
}

void decode(const JpegImage& image) {
  open(image.pixels, image.size.H * image.size.W * 3);
  tjhandle decoder = tjInitDecompress();
  CHECK(decoder != nullptr);
  tjDecompress2(decoder,
                reinterpret_cast<const unsigned char*>(image.file.data()),
                image.file.size(), image.pixels, static_cast<int>(image.size.W),
                0, static_cast<int>(image.size.H), TJPF_RGB, 0);
  tjDestroy(decoder);
}

bool has_readable_header(const JpegImage& image) {
  int width = 0, height = 0, subsampling = 0, colorspace = 0;
  tjhandle decoder = tjInitDecompress();
  CHECK(decoder != nullptr);
  const int result = tjDecompressHeader3(
      decoder, reinterpret_cast<const unsigned char*>(image.file.data()),
      image.file.size(), &width, &height, &subsampling, &colorspace);
  tjDestroy(decoder);
  return result == 0 && width == image.size.W && height == image.size.H;
}

}  // namespace

bool can_decode_jpegs(Context&, int64_t) {
  return true;
}

void decode_jpegs(Context& context, std::span<JpegImage> images) {
  std::vector<JpegImage> accepted;
  for (JpegImage& image : images) {
    image.is_decoded = has_readable_header(image);
    if (image.is_decoded) accepted.push_back(image);
  }
  emulator::run_on(
      context.stream(),
      [accepted = std::move(accepted)] {
        for (const JpegImage& image : accepted) decode(image);
      },
      "decode_jpegs");
}

}  // namespace syncopate::cuda
