// Batches of images for one worker: augmentation and prefetch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/batch.h"
#include "data/images/dataset.h"
#include "data/images/normalization.h"
#include "data/options.h"
#include "data/sampler.h"

namespace syncopate {

// Delivers a worker's training batches, prepared ahead by a thread of the
// process (with prefetch 0 by the caller itself). Augmentation goes by (seed,
// epoch, index of the sample in the set), so it does not depend on how many
// workers there are: crop or resized crop, then flip, then rotate. The
// set's own threads, where it has some, share out the images of a batch.
class Loader {
 public:
  // `set` must outlive it. Errors: kBadInput for impossible options.
  Loader(const DataOptions& options,
         const ImageSet& set,
         const Normalization& normalization,
         const Sampler& sampler,
         int rank,
         uint64_t seed,
         int64_t first_batch);  // resume position
  Loader(Loader&&) noexcept;
  ~Loader();
  // The view is valid until the next call. An error of the thread is thrown
  // here.
  Batch next();
  double wait_s() const;  // time next() had to wait, in all

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Fills `images` (N, H, W, C) and `labels` for evaluation: no augmentation.
struct HostBatch {
  std::vector<float> images;
  std::vector<int32_t> labels;
  Batch view(const ImageSpec& spec) const;
};
void fill_evaluation_batch(HostBatch& batch,
                           const ImageSet& set,
                           const Normalization& normalization,
                           std::span<const int64_t> indices);

}  // namespace syncopate
