// The writer of prepared images: a folder of JPEGs, decoded and resized once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "data/images/dataset.h"

namespace syncopate {

struct PrepareImages {
  fs::path from;       // an image_folder
  fs::path to;         // must not exist, or be an empty folder
  int64_t size = 256;  // of a side, in pixels
  int threads = 1;
  std::function<void(int64_t done, int64_t total)> progress;
};

// Each image's shorter side is resized to `size` and the middle cut out. Works
// in TO.tmp, which becomes TO in one step: TO is whole or not there. Returns
// what it found in `from`. Errors: those of image_folder and of its files,
// kCannotCreate, kIoError; nothing is left then. A TO.tmp that a kill left is
// replaced.
Dataset prepare_images(const PrepareImages& wanted);

}  // namespace syncopate
