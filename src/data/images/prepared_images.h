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

// Reads the pixels of a folder (all, or a few blocks of 32 MiB evenly spread)
// and compares their digests. Returns the paths and what is wrong, one line a
// fault; empty: none.
enum class Extent { kAll, kSample };
struct PixelCheck {
  std::vector<std::string> faults;
  int64_t images = 0;  // that were read
};
PixelCheck check_pixels(const ImageSet& set, Extent extent);

// Whether `folder` holds prepared images; and for `inspect`: what is in it, a
// line "  damaged: ..." for each fault. Reads every byte.
bool is_prepared_images(const fs::path& folder);
std::string describe_prepared_images(const fs::path& folder);

}  // namespace syncopate
