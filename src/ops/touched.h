// Marks of the blocks of a gradient that a step touched, so that passes over
// large tables take time in proportion to the rows of the step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"

namespace syncopate {

// Of a flat range of gradients that is divided into blocks from its beginning:
// what an unmarked block holds is all zero (+0). Whoever adds to one marks it.
struct TouchedBlocks {
  static constexpr int64_t kElems = 128;  // of a block
  enum Mark : uint8_t { kUntouched, kTouched, kAlways };

  const float* begin = nullptr;  // of the range
  // One per block, in the context's memory; null: every block counts as marked.
  uint8_t* marks = nullptr;

  // Returns the place in the range of elements that begin at `values`.
  constexpr int64_t place_of(const float* values) const {
    return values - begin;
  }
};

// Zeroes the marked blocks of the range and unmarks those that are kTouched.
// `values` is the whole range; `touched` has marks.
void clear_touched(Context& context,
                   std::span<float> values,
                   const TouchedBlocks& touched);

}  // namespace syncopate
