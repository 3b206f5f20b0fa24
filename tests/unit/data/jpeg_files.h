// Procedural images as JPEG files, and folders of them by class.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <turbojpeg.h>

#include <cmath>

#include "data/images/image_reader.h"
#include "data_files.h"

namespace syncopate {

struct RgbImage {
  int64_t H = 0, W = 0;
  std::vector<uint8_t> pixels;  // (H, W, 3)
};

// Smooth waves, so that compression and scaling change little: kind and salt
// set their directions and phases.
inline RgbImage make_image(int64_t H, int64_t W, int kind, int salt) {
  RgbImage image{H, W, {}};
  for (int64_t y = 0; y < H; ++y)
    for (int64_t x = 0; x < W; ++x)
      for (int c = 0; c < 3; ++c) {
        const double across = static_cast<double>(x) / static_cast<double>(W);
        const double down = static_cast<double>(y) / static_cast<double>(H);
        const double turn = 0.9 * kind + 0.4 * c;
        const double value = 128 + 90 * std::sin(7 * (std::cos(turn) * across +
                                                      std::sin(turn) * down) +
                                                 0.11 * salt + c);
        image.pixels.push_back(static_cast<uint8_t>(std::lround(value)));
      }
  return image;
}

// The map of a whole image as it is.
inline ImageMap whole(int64_t, int64_t) {
  return Affine{}.to_map(0, Outside::kNearest);
}

// Reads bytes as they are.
inline PixelReader reader_of_bytes(const ImageSpec& spec) {
  const std::vector<float> zero(3, 0.0F), one(3, 1.0F);
  return PixelReader(spec, {one, zero},
                     {zero, std::vector<float>(3, 1.0F / 255)});
}

// `pixels` hold H * W values of TJPF_RGB, _GRAY or _CMYK.
inline std::string jpeg_bytes(const std::vector<uint8_t>& pixels,
                              int64_t H,
                              int64_t W,
                              int pixel_format,
                              int subsampling,
                              int quality) {
  const tjhandle compressor = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long num_bytes = 0;
  const int status = tjCompress2(compressor, pixels.data(), static_cast<int>(W),
                                 0, static_cast<int>(H), pixel_format, &bytes,
                                 &num_bytes, subsampling, quality, 0);
  EXPECT_EQ(status, 0) << tjGetErrorStr2(compressor);
  std::string result(reinterpret_cast<const char*>(bytes), num_bytes);
  tjFree(bytes);
  tjDestroy(compressor);
  return result;
}

inline std::string jpeg_of(const RgbImage& image, int quality = 95) {
  return jpeg_bytes(image.pixels, image.H, image.W, TJPF_RGB, TJSAMP_420,
                    quality);
}

// 3 classes of 8 in train and 4 in val, of several sizes, all at least 40.
inline void write_image_folder(const fs::path& folder) {
  const char* const kClasses[] = {"bee", "ant", "cow"};
  int salt = 0;
  for (const std::string set : {"train", "val"})
    for (int kind = 0; kind < 3; ++kind) {
      const fs::path where = folder / set / kClasses[kind];
      fs::create_directories(where);
      for (int i = 0; i < (set == "train" ? 8 : 4); ++i, ++salt) {
        const int64_t H = 40 + 7 * (salt % 5), W = 43 + 9 * (salt % 4);
        const char* const extension = i % 3 == 0   ? ".JPEG"
                                      : i % 3 == 1 ? ".jpg"
                                                   : ".jpeg";
        write_bytes(where / (std::to_string(100 + i) + extension),
                    jpeg_of(make_image(H, W, kind, salt)));
      }
    }
}

}  // namespace syncopate
