// Loaders of a data set, and what is in their batches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>

#include "data/images/loader.h"
#include "data/images/normalization.h"
#include "data/sampler.h"
#include "data_files.h"

namespace syncopate {

struct LoaderBench {
  static constexpr uint64_t kSeed = 5;

  DataOptions options;
  Dataset data = load_dataset(options);
  Normalization normalization = make_normalization(options, data.train);
  std::vector<int64_t> all = split_validation(options, data.train, 1).train;

  explicit LoaderBench(const DataOptions& wanted) : options(wanted) {}
  Sampler sampler(int ranks) const {
    return Sampler(options, data.train, all, ranks, kSeed);
  }
  Loader loader(int rank, int ranks, int64_t first) const {
    return Loader(options, data.train, normalization, sampler(ranks), rank,
                  kSeed, first);
  }
};

struct Content {
  std::vector<float> images;
  std::vector<int32_t> labels;
  bool operator==(const Content&) const = default;
};

inline Content content_of(const Batch& batch) {
  const auto* labels = static_cast<const int32_t*>(batch.labels.data);
  return {{batch.images.f32(), batch.images.f32() + batch.images.elems()},
          {labels, labels + batch.labels.elems()}};
}

// The first `count` batches of worker 0.
inline std::vector<Content> contents_of(const LoaderBench& bench,
                                        int ranks,
                                        int64_t count) {
  Loader loader = bench.loader(0, ranks, 0);
  std::vector<Content> contents;
  for (int64_t i = 0; i < count; ++i)
    contents.push_back(content_of(loader.next()));
  return contents;
}

// Batches of `ranks` workers together, side by side, are those of one that
// takes as many samples as they do.
inline void expect_workers_see_what_one_sees(const DataOptions& of_one,
                                             int ranks,
                                             int64_t steps) {
  DataOptions options = of_one;
  options.batch /= ranks;
  const LoaderBench one(of_one), many(options);
  Loader reference = one.loader(0, 1, 0);
  std::deque<Loader> loaders;
  for (int rank = 0; rank < ranks; ++rank)
    loaders.emplace_back(many.options, many.data.train, many.normalization,
                         many.sampler(ranks), rank, LoaderBench::kSeed, 0);
  for (int64_t step = 0; step < steps; ++step) {
    Content joined;
    for (Loader& loader : loaders) {
      const auto [images, labels] = content_of(loader.next());
      joined.images.insert(joined.images.end(), images.begin(), images.end());
      joined.labels.insert(joined.labels.end(), labels.begin(), labels.end());
    }
    ASSERT_EQ(joined, content_of(reference.next())) << ranks << " " << step;
  }
}

}  // namespace syncopate
