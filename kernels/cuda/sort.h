// A stable sort of keys together with their original places.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/context.h"

namespace syncopate::cuda {

// Both of n elements. `keys` ascend; `places` is a permutation of 0 to n - 1,
// ascending among equal keys: keys[i] was at places[i].
struct SortedKeys {
  const int32_t* keys;
  const int32_t* places;
};

inline constexpr int64_t kMaxSortedKeys = int64_t{1} << 24;
// Index of Context::scratch() that the caller must not use while it needs the
// result.
inline constexpr int kSortScratch = 3;

// Keys are in [0, R), R < 2^31; one outside counts as R and so sorts last. The
// result is in scratch(., kSortScratch) and valid until the next op. 0 <= n <=
// kMaxSortedKeys. Does not wait for the device.
SortedKeys sort_by_key(Context& context,
                       const int32_t* keys,  // (n), not in that scratch
                       int64_t n,
                       int64_t R);

}  // namespace syncopate::cuda
