// Which samples each worker sees, and in which order: validation split,
// partition and shuffling. Everything is a pure function of (seed, epoch,
// position), so a checkpoint keeps only the position.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/options.h"

namespace syncopate {

struct ImageSet;

// What the order and the shares of a training set go by.
struct SampleTable {
  int64_t samples = 0;
  // The class of a sample, for partitions by label; empty: there is none.
  std::function<int32_t(int64_t)> label_of = {};
  int64_t classes = 0;
  // (samples) how long each is, for bucketing; empty: all alike.
  std::vector<int32_t> lengths = {};
  // Samples [groups[i], groups[i + 1]) are held out, and evaluated, together;
  // empty: each is a group.
  std::vector<int64_t> groups = {};

  SampleTable() = default;
  SampleTable(const ImageSet& set);  // NOLINT: a view of a set
};

// Which samples of the train set are trained on and which are held out: the
// last `validation` of a seeded permutation; both in the file's order.
struct Split {
  std::vector<int64_t> train, validation;
};
Split split_validation(const DataOptions& options,
                       const SampleTable& train,
                       uint64_t seed);

// The order in which worker `rank` of `ranks` sees the split's samples. With
// data.bucketing = length, samples of like lengths come together: an epoch's
// order is cut into windows of 64 steps, each is sorted by length (in place of
// chance among equals), and the epoch's steps are then drawn in a random order.
// A copy shares its tables with the original; safe to use from several threads.
class Sampler {
 public:
  // Errors: kBadInput if one step of all workers takes more than there is.
  Sampler(const DataOptions& options,
          const SampleTable& set,
          std::vector<int64_t> indices,
          int ranks,
          uint64_t seed);
  // Batches (of options.batch) a worker has in one epoch; equal for all
  // workers, and whole steps of options.accumulate batches: what does not fill
  // a step on every worker is left for another epoch's order.
  int64_t batches_per_epoch() const;
  // Sample indices into the set, for worker `rank`, batch `index` (counted
  // from the run's start, so epoch = index / batches_per_epoch()). Interleaved:
  // the workers' batches in rank order are one batch of a single worker with
  // batch N*B, and `accumulate` batches are one of batch accumulate*N*B.
  std::vector<int64_t> batch(int rank, int64_t index) const;
  // The batch's place among all samples that the run draws, in the order of
  // batches, then ranks.
  uint64_t first_sample(int rank, int64_t index) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace syncopate
