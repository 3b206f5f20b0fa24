// bf16 copies of a model's weights, as a GPU's products and convolutions read
// them: where the copies of which parameters lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace syncopate {

// The copy of elements [begin, end) of the parameter range: filters (K, C, R,
// S), a matrix (K, C) or a vector (C). Element (k, c, r, s) is copied to
//   at + (k window + r S + s) padded_C + c       window = R S, 1 of a matrix
// and channels from C on are 0.
struct ShadowEntry {
  int64_t begin, end;
  int64_t at;  // in the range of copies
  uint32_t C, window, padded_C;
};

// The copies of a model: entries are disjoint, in order of `begin`.
class ShadowTable {
 public:
  // Copies start at multiples of this many elements, 128 bytes.
  static constexpr int64_t kAlignment = 64;

  // Adds a copy of the parameter at `offset`, unless there is one. padded_C is
  // at least the number of channels.
  void add(int64_t offset, const Shape& shape, int64_t padded_C);

  const std::vector<ShadowEntry>& entries() const { return entries_; }
  int64_t num_elems() const { return num_elems_; }  // of the range of copies
  // Returns the copy of the parameter that begins at `offset`, or null.
  const ShadowEntry* find(int64_t offset) const;

 private:
  std::vector<ShadowEntry> entries_;
  int64_t num_elems_ = 0;
};

// For ops that write copies: those of a range that starts at element `first` of
// the parameters. All in the context's memory.
struct ShadowSlice {
  const ShadowEntry* entries = nullptr;
  int64_t num_entries = 0;  // 0: nothing is copied
  Bf16* values = nullptr;
  int64_t first = 0;
  ShadowSlice from(int64_t element) const {
    return {entries, num_entries, values, first + element};
  }
};

// For ops that read weights: fp32 and, if there is one, the bf16 copy.
struct ConstWeight : ConstTensor {
  ConstWeight() = default;
  ConstWeight(const ConstTensor& parameter) : ConstTensor(parameter) {}
  ConstWeight(const Tensor& parameter) : ConstTensor(parameter) {}
  const Bf16* copy = nullptr;
  int64_t copy_C = 0;  // its padded_C
};

}  // namespace syncopate
