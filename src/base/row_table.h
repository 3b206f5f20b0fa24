// A table of embeddings as rows, of which a step touches few.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/touched_blocks.h"

namespace syncopate {

// On the host or on a device.
struct RowTable {
  std::span<float> values;  // whole rows, fewer than 2^32
  int64_t row_elems = 1;
  // Marks of `values`, or of a range that contains them.
  TouchedBlocks touched = {};

  int64_t rows() const { return std::ssize(values) / row_elems; }
};

}  // namespace syncopate
