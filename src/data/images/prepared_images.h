// Images decoded and resized once, to be mapped afterwards: a folder with
//   train.images, test.images   bytes (samples, SIZE, SIZE, 3), nothing else
//   images.h5                   labels, class names, sums by image, digests
// so that reading is one large piece an image and one file a set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/images/dataset.h"

namespace syncopate {

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
