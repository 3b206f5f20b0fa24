// Random crop, flip, rotation and resizing of training samples, composed into
// one affine map of the stored pixels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/images/dataset.h"
#include "data/images/image_reader.h"
#include "data/images/normalization.h"
#include "data/options.h"

namespace syncopate {

// The random draws for a sample depend only on (seed, epoch, sample), and the
// draw of one kind does not depend on which other kinds are enabled. Safe to
// use from several threads.
class Augmenter {
 public:
  // `set` must outlive it. Errors: kBadInput for unknown kinds and impossible
  // sizes.
  Augmenter(const DataOptions& options,
            const ImageSet& set,
            const Normalization& normalization,
            uint64_t seed);

  // Crop or resized crop, then flip, then rotation. The stored images must have
  // one size, which JPEG files do not.
  ImageMap map(int64_t epoch, int64_t sample) const;
  // The same for a stored image of H x W.
  ImageMap map(int64_t epoch, int64_t sample, int64_t H, int64_t W) const;

  // Writes the image seen through that map to out: (H, W, C).
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
  Outside outside_ = Outside::kNearest;
};

}  // namespace syncopate
