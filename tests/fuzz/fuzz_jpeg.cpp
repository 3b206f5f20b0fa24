// JPEG files, decoded whole and at an eighth of their size.
#include "data/images/jpeg.h"
#include "fuzz.h"

void syncopate::fuzz::take(std::string_view input) {
  const fs::path path = scratch_file("a.jpg", input);
  for (const float step : {1.0F, 8.0F})
    accept_or_refuse(path.string(), [&] {
      JpegDecoder decoder;
      const JpegDecoder::Image image =
          decoder.decode(path, [&](int64_t H, int64_t W) {
            if (H < 1 || W < 1) found("an image of no size");
            return ImageMap{{step, 0, 0, 0, step, 0}, 0, Outside::kNearest};
          });
      uint64_t sum = 0;  // every pixel is there
      for (int64_t i = 0; i < image.H * image.W * 3; ++i)
        sum += image.pixels[i];
      if (sum > static_cast<uint64_t>(255 * 3 * image.H * image.W))
        found("a pixel of more than a byte");
    });
}
