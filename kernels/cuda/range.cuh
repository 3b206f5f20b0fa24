// Flat ranges that start at any element: packs if all ranges of an operation
// have the same alignment; single elements before, after and otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/pack.cuh"
#include "cuda/platform.h"

namespace syncopate::cuda {

// `elems` elements: `head` single ones, `packs` packs, and the rest single.
struct RangeSplit {
  int64_t elems, head, packs;
  // Work items of threads: packs and single elements.
  int64_t items(int pack_elems) const {
    return elems - packs * (pack_elems - 1);
  }
};

// Splits ranges of `elems` elements each that are read and written together, in
// packs of kPack elements. A pointer may be null.
template <int kPack, typename First, typename... Others>
RangeSplit split_range(int64_t elems,
                       const First* first,
                       const Others*... others) {
  const auto phase = [](const auto* memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    return static_cast<int64_t>(address / sizeof(*memory) % kPack);
  };
  const bool is_alike =
      ((others == nullptr || phase(others) == phase(first)) && ...);
  const int64_t head = (kPack - phase(first)) % kPack;
  if (!is_alike || elems <= head) return {elems, 0, 0};
  return {elems, head, (elems - head) / kPack};
}

// Calls body(width, first) for each item once, over a grid of one-dimensional
// blocks: `width()` elements, kPack or 1, starting at element `first`.
template <int kPack, typename Body>
__device__ __forceinline__ void for_range(const RangeSplit& range,
                                          const Body& body) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t pack = thread; pack < range.packs; pack += threads)
    body(std::integral_constant<int, kPack>(), range.head + pack * kPack);
  const int64_t singles = range.elems - range.packs * kPack;
  for (int64_t single = thread; single < singles; single += threads)
    body(std::integral_constant<int, 1>(),
         single < range.head ? single : single + range.packs * kPack);
}

}  // namespace syncopate::cuda
