// Sums of ranges in one memory, formed as workers who send them to each other
// would form them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ops/context.h"

namespace syncopate {

// The order of additions over ranges 0 .. N-1, and what would travel.
enum class SumOrder : uint8_t {
  // Of N chunks, of which the first (elems % N) have one element more, chunk c
  // is summed in the order c+1, c+2, ..., c. Partial sums and the sum travel.
  kRing,
  // 0, 1, ..., N-1. All ranges but the first travel, and the sum.
  kServer,
};

inline constexpr int kMostSharedRanges = 128;  // what a kernel's arguments hold

// Replaces each of the ranges, two or more of equal length that do not overlap,
// by their sum. What would travel is rounded to `sent`, fp32 or bf16; sums are
// formed in fp32.
void shared_sum(Context& context,
                std::span<const std::span<float>> ranges,
                SumOrder order,
                DType sent);

}  // namespace syncopate
