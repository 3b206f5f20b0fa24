// Maps a model's tensors to their places in its flat ranges.
//
// A model's parameters are one contiguous range, its gradients another of the
// same shape, its buffers (BatchNorm statistics) a third. This table names the
// tensors inside; optimizers, collectives, compressors and checkpoints work
// on ranges and look here only for roles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace syncopate {

enum class Role : uint8_t {
  kWeight,     // convolution filters, matrices
  kBias,       // of a convolution or a matrix
  kBatchNorm,  // gamma and beta
  kLayerNorm,  // gamma and beta
  kEmbedding,  // (rows, D): a table of which a batch touches few rows
  kStatistic,  // buffers: running mean and variance
};

struct ParameterEntry {
  std::string name;  // "stage1.block0.conv1.weight"
  Shape shape;       // canonical: (K, C, R, S), (out, in), (C)
  int64_t offset;    // elements from the start of the range
  Role role;
  int64_t elems() const { return shape.elems(); }
};

class ParameterTable {
 public:
  // Appends a tensor and returns its index. Every entry starts where the
  // previous one ended, so a range of whole tensors has no holes.
  int add(std::string name, Shape shape, Role role);

  const std::vector<ParameterEntry>& entries() const { return entries_; }
  const ParameterEntry& operator[](int index) const { return entries_[index]; }
  int64_t num_tensors() const { return std::ssize(entries_); }
  int64_t num_elems() const { return num_elems_; }

  // Returns the index of the entry that holds element `offset`.
  int find(int64_t offset) const;

 private:
  std::vector<ParameterEntry> entries_;
  int64_t num_elems_ = 0;
};

// Returns a table with about `share` (0 to 1) of each tensor: of its first
// dimension, but at least one row.
ParameterTable thinned(const ParameterTable& table, double share);

}  // namespace syncopate
