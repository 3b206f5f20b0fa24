// Batches of images for one worker, with augmentation and prefetching.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/read_ahead.h"
#include "data/batch.h"
#include "data/images/augment.h"
#include "data/images/dataset.h"
#include "data/images/normalization.h"
#include "data/options.h"
#include "data/sampler.h"

namespace syncopate {

// `images` (N, H, W, C) and `labels` on the host.
struct HostBatch {
  std::vector<float> images;
  std::vector<int32_t> labels;
  Batch view(const ImageSpec& spec) const;
};
// Fills a batch for evaluation, without augmentation.
void fill_evaluation_batch(HostBatch& batch,
                           const ImageSet& set,
                           const Normalization& normalization,
                           std::span<const int64_t> indices);

// Delivers a worker's training batches, which a thread prepares ahead of time
// (with prefetch 0 the caller prepares them). Augmentation depends only on
// (seed, epoch, index of the sample in the set), not on the number of workers.
// The set's thread pool, if it has one, divides the images of a batch.
class Loader {
 public:
  // `set` must outlive it. Errors: kBadInput for impossible options.
  Loader(const DataOptions& options,
         const ImageSet& set,
         const Normalization& normalization,
         const Sampler& sampler,
         int rank,
         uint64_t seed,
         int64_t first_batch);  // where a resumed run continues
  // The view is valid until the next call. Rethrows errors of the thread.
  Batch next() { return batches_.next().view(set_.spec); }
  // The total time that next() waited.
  double wait_s() const { return batches_.wait_s(); }

 private:
  const ImageSet& set_;
  Sampler sampler_;
  Augmenter augmenter_;
  ReadAhead<HostBatch> batches_;  // last: its thread uses the others
};

}  // namespace syncopate
