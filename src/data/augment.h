// From stored pixels to what a network is fed: normalised, and for training
// cropped, flipped and rotated at random.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/loader.h"

namespace syncopate {

// value = (pixel / 255 - mean) / std for bytes, (pixel - mean) / std for
// floats; bytes through a table of 256 values a channel.
class Normalizer {
 public:
  // `set` must outlive it.
  Normalizer(const ImageSet& set, const Normalization& normalization);

  // Sample `sample` moved by (dy, dx) and, where asked, mirrored left to
  // right: out(y, x) = pixel(y + dy, x' + dx), x' = x or W-1-x; zero outside.
  struct View {
    int64_t dy = 0, dx = 0;
    bool is_mirrored = false;
  };
  // out: (H, W, C)
  void fill(int64_t sample, const View& view, float* out) const;

 private:
  const ImageSet& set_;
  Normalization normalization_;
  std::vector<float> table_;  // (256, C); empty for floats
};

// Draws for a sample are a function of (seed, epoch, sample) alone, and each
// kind's draw does not depend on which other kinds are on.
class Augmenter {
 public:
  // Errors: kBadInput for unknown kinds and impossible sizes.
  Augmenter(const DataOptions& options,
            const ImageSet& set,
            const Normalization& normalization,
            uint64_t seed);

  // Crop, then flip, then rotate. out: (H, W, C)
  void fill(int64_t epoch, int64_t sample, float* out);

 private:
  ImageSpec spec_;
  Normalizer normalizer_;
  uint64_t seed_;
  int64_t pad_ = 0;
  bool has_flip_ = false;
  double degrees_ = 0;          // 0: no rotation
  std::vector<float> upright_;  // scratch of the rotation
};

// Rotates (H, W, C) about its middle by `radians`, bilinearly, zero outside.
void rotate_image(const ImageSpec& spec,
                  double radians,
                  const float* in,
                  float* out);

}  // namespace syncopate
