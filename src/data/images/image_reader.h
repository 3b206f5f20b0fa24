// Resamples stored images through affine maps to normalised values: from
// memory, from a mapped file, or decoded from JPEG files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/images/dataset.h"
#include "data/images/jpeg.h"
#include "data/images/normalization.h"

namespace syncopate {

// Normalisation as value = pixel * scale[c] + shift[c], where bytes are 0..255.
struct PixelScale {
  std::vector<float> scale, shift;  // by channel
};
PixelScale pixel_scale(const ImageSet& set, const Normalization& normalization);

// Reads one image (H', W', C) through a map into (H, W, C). If the map is a
// shift by whole pixels, mirrored or not, each value is exactly
// (pixel / 255 - mean) / std, for floats (pixel - mean) / std.
class PixelReader {
 public:
  PixelReader(const ImageSpec& out,
              const PixelScale& scale,
              const Normalization& normalization);

  template <typename Pixel>  // uint8_t or float
  void read(const Pixel* image,
            int64_t H,
            int64_t W,
            const ImageMap& map,
            float* out) const;

 private:
  ImageSpec out_;
  PixelScale scale_;
  Normalization normalization_;
  std::vector<float> table_;  // (256, C): the value of each byte
};

// Safe to use from several threads.
class ImageReader {
 public:
  // `set` must outlive it.
  ImageReader(const ImageSet& set, const Normalization& normalization);

  // out: (H, W, C). `choose` gives the map for the image's stored size.
  void fill(int64_t sample, const ChooseMap& choose, float* out) const;

  // Calls body(i), which fills sample i of a batch, for i < count on the set's
  // threads.
  void for_each(int64_t count, const std::function<void(int64_t)>& body) const;
  // Tells the kernel which mapped images will be read next.
  void will_need(std::span<const int64_t> samples) const;

 private:
  const ImageSet& set_;
  PixelReader reader_;
};

// Reads a JPEG file through a map as bytes (out.H, out.W, 3), rounded to
// nearest.
void read_jpeg_bytes(const fs::path& path,
                     const ChooseMap& choose,
                     const ImageSpec& out,
                     uint8_t* pixels);

// The map through which evaluation sees a stored image of H x W.
ImageMap evaluation_map(const ImageSet& set,
                        int64_t sample,
                        int64_t H,
                        int64_t W);

}  // namespace syncopate
