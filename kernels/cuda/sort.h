// A stable sort of keys with the places that they came from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/context.h"

namespace syncopate::cuda {

// Both of n elements. `keys` ascend; `places` are a permutation of 0 to n - 1,
// ascending among equal keys: keys[i] is the key that lay at places[i].
struct SortedKeys {
  const int32_t* keys;
  const int32_t* places;
};

inline constexpr int64_t kMaxSortedKeys = int64_t{1} << 24;
// Of Context::scratch(): what a caller must leave alone as long as it needs
// the result.
inline constexpr int kSortScratch = 3;

// Keys lie in [0, R), R < 2^31; one outside counts as R and so comes last. The
// result lies in scratch(., kSortScratch) and holds until the next op. 0 <= n
// <= kMaxSortedKeys. Nothing waits.
SortedKeys sort_by_key(Context& context,
                       const int32_t* keys,  // (n), not in that scratch
                       int64_t n,
                       int64_t R);

}  // namespace syncopate::cuda
