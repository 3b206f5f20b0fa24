// Decides which samples each worker sees, and in which order: validation split,
// partition and shuffling. Everything is a pure function of (seed, epoch,
// position), so a checkpoint stores only the position.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/options.h"

namespace syncopate {

struct ImageSet;

// The properties of a training set that determine its order and partition.
struct SampleTable {
  int64_t samples = 0;
  // The class of a sample, for partitions by label; empty if it has none.
  std::function<int32_t(int64_t)> label_of = {};
  int64_t classes = 0;
  // (samples) their lengths, for bucketing; empty if all are equal.
  std::vector<int32_t> lengths = {};
  // Samples [groups[i], groups[i + 1]) are held out and evaluated together;
  // empty if every sample is its own group.
  std::vector<int64_t> groups = {};

  SampleTable() = default;
  SampleTable(const ImageSet& set);  // NOLINT: a view of a set
};

// The indices of the train set that are trained on and those held out, both in
// file order. The last `validation` samples of a seeded permutation are held
// out. Errors: kBadInput if data.validation is invalid, rounds to no samples or
// leaves none to train on.
struct Split {
  std::vector<int64_t> train, validation;
};
Split split_validation(const DataOptions& options,
                       const SampleTable& train,
                       uint64_t seed);

// The order in which each worker sees the samples of a split. With
// data.bucketing = length, samples of similar length share a step: an epoch's
// random order is cut into windows of 64 steps, each window is sorted by length
// (stably), and the steps of the epoch are then shuffled. Copies share their
// tables; safe to use from several threads.
class Sampler {
 public:
  // Errors: kBadInput if one step of all workers needs more samples than exist.
  Sampler(const DataOptions& options,
          const SampleTable& set,
          std::vector<int64_t> indices,
          int ranks,
          uint64_t seed);
  // Batches per worker and epoch; equal for all workers and a multiple of
  // options.accumulate. Samples that do not fill a step on every worker are
  // left out of the epoch.
  int64_t batches_per_epoch() const;
  // The samples of batch `index` of worker `rank`, counted from the start of
  // the run: epoch = index / batches_per_epoch(). If interleaved, the batches
  // of the N workers in rank order equal one batch of a single worker with
  // batch N*B, and `accumulate` of those equal one with accumulate*N*B.
  std::vector<int64_t> batch(int rank, int64_t index) const;
  // The index of the batch's first sample among all samples that the run
  // draws, ordered by batch, then by rank.
  uint64_t first_sample(int rank, int64_t index) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace syncopate
