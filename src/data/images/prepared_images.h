// Images that were decoded and resized once and are mapped afterwards: a folder
// with
//   train.images, test.images   bytes (samples, SIZE, SIZE, 3), nothing else
//   images.h5                   labels, class names, sums per image, digests
// Reading an image is then one contiguous access, and a set is one file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/images/dataset.h"

namespace syncopate {

// The names and constants that the reader and the writer share.
struct PreparedImages {
  static constexpr const char* kKind = "syncopate prepared images";
  static constexpr int64_t kVersion = 1;
  static constexpr std::array<const char*, 3> kNames = {
      "images.h5", "train.images", "test.images"};
  static constexpr int64_t kChannels = 3;
  static constexpr int64_t kSizeLimit = 4096;  // of a side, in pixels

  explicit PreparedImages(const fs::path& where)
      : folder(where), header(where / kNames[0]) {}
  fs::path pixels(const std::string& set) const {
    return folder / (set + ".images");
  }

  fs::path folder, header;
};

// Compares the digests of all pixels of a folder, or of a few evenly spread
// blocks of 32 MiB. Returns one line per fault, which begins with the path.
enum class Extent { kAll, kSample };
struct PixelCheck {
  std::vector<std::string> faults;
  int64_t images = 0;  // number of images read
};
PixelCheck check_pixels(const ImageSet& set, Extent extent);

// Whether `folder` holds prepared images.
bool is_prepared_images(const fs::path& folder);
// The text of `inspect`, with a line "  damaged: ..." per fault. Reads every
// byte.
std::string describe_prepared_images(const fs::path& folder);

}  // namespace syncopate
