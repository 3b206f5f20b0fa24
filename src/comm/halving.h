// Reduce-scatter by recursive halving among a power of two of members: the
// first half of butterfly, and of each of the binary blocks.
//
// With B members, place q, d = B/2, B/4, .., 1: q and q xor d hold sums of the
// same range; each sends the half that is to be the other's and adds what it
// gets to its own. In the end q has the sum of chunk q of B.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/exchange.h"

namespace syncopate {

// Chunks [first, last) of `elems` in n. Chunk c begins at floor(elems c / n):
// sizes differ by at most one, and n chunks are cut where 2 n are.
ElemRange nested_chunks(int64_t elems, int n, int first, int last);

// What the member at `place` does; `positions` (in the group) by place.
void append_halving(std::vector<ExchangeStep>& steps,
                    std::span<const int> positions,
                    int place,
                    int64_t elems);

}  // namespace syncopate
