// Stores parameters' bf16 copies (tensor/shadow.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/pack.cuh"
#include "tensor/shadow.h"

namespace syncopate::cuda {

// Returns the index of the first entry that ends behind `element`.
__device__ __forceinline__ int64_t entry_at(const ShadowSlice& copies,
                                            int64_t element) {
  int64_t low = 0, high = copies.num_entries;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (copies.entries[middle].end <= element)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Returns the place of an entry's n-th element in its copy.
__device__ __forceinline__ int64_t copied_to(const ShadowEntry& entry,
                                             uint32_t n) {
  if (entry.window == 1 && entry.padded_C == entry.C) return n;
  const uint32_t pair = n / entry.window, rs = n - pair * entry.window;
  const uint32_t k = pair / entry.C, c = pair - k * entry.C;
  return (int64_t{k} * entry.window + rs) * entry.padded_C + c;
}

// Stores the copies of a pack that starts at element `first` of the slice.
template <int kWidth>
__device__ __forceinline__ void store_copies(const ShadowSlice& copies,
                                             int64_t first,
                                             const Pack<float, kWidth>& xs) {
  if (copies.num_entries == 0) return;
  const int64_t begin = copies.first + first;
  int64_t index = entry_at(copies, begin);
  for (int i = 0; i < kWidth; ++i) {
    while (index < copies.num_entries && copies.entries[index].end <= begin + i)
      ++index;
    if (index == copies.num_entries) return;
    const ShadowEntry& entry = copies.entries[index];
    const int64_t n = begin + i - entry.begin;
    if (n < 0) continue;
    Bf16* const to = copies.values + entry.at;
    if (i == 0 && kWidth > 1 && begin + kWidth <= entry.end &&
        n % kWidth == 0 && entry.window == 1 && entry.padded_C == entry.C) {
      Pack<Bf16, kWidth> rounded;
      for (int j = 0; j < kWidth; ++j) rounded.set(j, xs.elem[j]);
      rounded.store(to + n);
      return;
    }
    to[copied_to(entry, static_cast<uint32_t>(n))] = from_f32<Bf16>(xs.elem[i]);
  }
}

}  // namespace syncopate::cuda
