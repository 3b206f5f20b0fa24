// How training sees a sample: cropped, flipped, rotated and resized at random,
// as one affine map of the stored pixels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/images/dataset.h"
#include "data/images/image_reader.h"
#include "data/images/normalization.h"
#include "data/options.h"

namespace syncopate {

// Draws for a sample are a function of (seed, epoch, sample) alone, and each
// kind's draw does not depend on which other kinds are on. Safe to use from
// several threads.
class Augmenter {
 public:
  // `set` must outlive it. Errors: kBadInput for unknown kinds and impossible
  // sizes.
  Augmenter(const DataOptions& options,
            const ImageSet& set,
            const Normalization& normalization,
            uint64_t seed);

  // Crop or resized crop, then flip, then rotate, of stored images of one size
  // (not of JPEG files, whose sizes differ).
  ImageMap map(int64_t epoch, int64_t sample) const;
  // The same for a stored image of H x W.
  ImageMap map(int64_t epoch, int64_t sample, int64_t H, int64_t W) const;

  // The image through that map. out: (H, W, C)
  void fill(int64_t epoch, int64_t sample, float* out) const;

  const ImageReader& reader() const { return reader_; }

 private:
  const ImageSet& set_;
  ImageReader reader_;
  uint64_t seed_;
  int64_t pad_ = 0;
  bool has_flip_ = false;
  double degrees_ = 0;         // 0: no rotation
  double crop_scale_min_ = 0;  // 0: no resized crop
};

}  // namespace syncopate
