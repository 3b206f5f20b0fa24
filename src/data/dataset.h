// Labelled images in memory, read from any of the supported formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "data/batch.h"

namespace syncopate {

// Pixels as stored, (samples, H, W, C): bytes (0..255) or floats as given.
struct ImageSet {
  ImageSpec spec;
  int64_t samples = 0;
  std::variant<std::vector<uint8_t>, std::vector<float>> pixels;
  std::vector<int32_t> labels;           // (samples), in [0, spec.classes)
  std::vector<std::string> class_names;  // empty or spec.classes
  std::string digest;  // XXH3-128 of shape and of pixels' and labels' XXH3-128
};

struct Dataset {
  ImageSet train;
  ImageSet test;
  std::string source;  // "idx /usr/share/...", for log and provenance
};

}  // namespace syncopate
