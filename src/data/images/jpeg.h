// Decodes JPEG files to RGB bytes, no larger than needed (libjpeg-turbo).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/images/sample_map.h"

namespace syncopate {

// The map for a stored image of H x W.
using ChooseMap = std::function<ImageMap(int64_t H, int64_t W)>;

// Greyscale images become RGB, and so do CMYK and YCCK images by Adobe's
// convention (a byte is 255 minus the ink: R = C K / 255). The EXIF orientation
// is ignored. Not safe to use from several threads at once.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // (H, W, 3), and the map for an image of that size. Valid until the next
  // call.
  struct Image {
    const uint8_t* pixels;
    int64_t H, W;
    ImageMap map;
  };
  // Decodes at 1, 1/2, 1/4 or 1/8 of the size, the smallest that keeps a pixel
  // for each pixel that the map reads. Errors: kInputMissing, or kBadInput
  // "FILE: what" for anything but a complete JPEG of 8 bits whose sampling
  // factors divide the largest ones. Any warning of libjpeg-turbo counts as
  // damage, except about defects that leave the pixels complete.
  Image decode(const fs::path& path, const ChooseMap& choose);

 private:
  struct Library;

  // Leaves the decoder ready for decode_pixels(); `bytes` must stay in place.
  void read_header(std::string_view bytes, const fs::path& path);
  void decode_pixels(const fs::path& path, int denominator);

  std::unique_ptr<Library> library_;
  std::vector<uint8_t> pixels_;  // RGB
  std::vector<uint8_t> inks_;    // CMYK
};

}  // namespace syncopate
