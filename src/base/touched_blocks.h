// Marks of the blocks of a range that a step touched, and passes of the host
// over the marked blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace syncopate {

// Marks for a flat range of gradients, which is divided into blocks from its
// beginning. An unmarked block holds only zeros (+0); whoever adds to a block
// marks it.
struct TouchedBlocks {
  static constexpr int64_t kElems = 128;  // of a block
  enum Mark : uint8_t { kUntouched, kTouched, kAlways };

  const float* begin = nullptr;  // of the range
  // One per block, in the range's memory; null: every block counts as marked.
  uint8_t* marks = nullptr;

  // Returns the place in the range of elements that begin at `values`.
  constexpr int64_t place_of(const float* values) const {
    return values - begin;
  }
};

// Several threads may mark the same block at the same time.
inline void mark_touched(const TouchedBlocks& touched,
                         const float* values,
                         int64_t elems) {
  if (touched.marks == nullptr || elems == 0) return;
  const int64_t place = touched.place_of(values);
  const int64_t last = (place + elems - 1) / TouchedBlocks::kElems;
  for (int64_t block = place / TouchedBlocks::kElems; block <= last; ++block) {
    std::atomic_ref<uint8_t> mark(touched.marks[block]);
    if (mark.load(std::memory_order_relaxed) == TouchedBlocks::kUntouched)
      mark.store(TouchedBlocks::kTouched, std::memory_order_relaxed);
  }
}

// Calls body(first, last) for the parts of values [begin, end) that are in
// marked blocks, from left to right; neighbouring blocks form one part.
template <typename Body>
void for_touched(const TouchedBlocks& touched,
                 const float* values,
                 int64_t begin,
                 int64_t end,
                 const Body& body) {
  if (touched.marks == nullptr) {
    body(begin, end);
    return;
  }
  const int64_t place = touched.place_of(values);
  const auto end_of_run = [&](int64_t from, bool is_marked) {
    while (from < end) {
      const int64_t block = (place + from) / TouchedBlocks::kElems;
      if ((touched.marks[block] != TouchedBlocks::kUntouched) != is_marked)
        return from;
      from = (block + 1) * TouchedBlocks::kElems - place;
    }
    return end;
  };
  for (int64_t first = begin; (first = end_of_run(first, false)) < end;) {
    const int64_t last = end_of_run(first, true);
    body(first, last);
    first = last;
  }
}

}  // namespace syncopate
