// Labelled vectors of fp32 values, made around a centre of each class.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/options.h"

namespace syncopate {

struct VectorSet {
  std::vector<float> values;    // (samples, D)
  std::vector<int32_t> labels;  // (samples), in [0, classes)
  int64_t samples() const { return std::ssize(labels); }
};

struct VectorData {
  VectorSet train, test;
  VectorSpec spec;
  std::string source;
  std::string digest;
};

// 16 values per vector in data.classes classes, equally many samples of each.
// Centres are N(0, 1) in each dimension, and so is the noise around them.
VectorData make_synthetic_vectors(const DataOptions& options);

// Batches on the host.
struct VectorBatch {
  std::vector<float> values;
  std::vector<int32_t> labels;
  void fill(const VectorSet& set,
            const VectorSpec& spec,
            std::span<const int64_t> samples);
  Batch view(const VectorSpec& spec) const;
};

}  // namespace syncopate
