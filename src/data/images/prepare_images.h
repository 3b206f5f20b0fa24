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

// Resizes each image's shorter side to `size` and crops the centre. Writes to
// TO.tmp, which is renamed to TO at the end, so that TO is complete or absent;
// replaces a TO.tmp left by a killed process. Returns the contents of `from`.
// Errors: those of reading image_folder, kCannotCreate, kIoError; they leave no
// files behind.
Dataset prepare_images(const PrepareImages& wanted);

}  // namespace syncopate
