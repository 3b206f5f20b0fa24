// Reduce-scatter by recursive halving among a power of two of members: the
// first half of the butterfly, and of each binary block.
//
// With B members, place q, d = B/2, B/4, .., 1: q and q xor d hold sums of the
// same range; each sends the half that the other will keep and adds what it
// receives to its own. At the end, q holds the sum of chunk q of B.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "comm/exchange.h"

namespace syncopate {

// Returns chunks [first, last) of `elems` divided into n. Chunk c begins at
// floor(elems c / n): sizes differ by at most one, and the boundaries for n are
// also boundaries for 2 n.
ElemRange nested_chunks(int64_t elems, int n, int first, int last);

// Appends the steps of the member at `place` of n; `position_of` maps places to
// positions in the group.
void append_halving(std::vector<ExchangeStep>& steps,
                    const std::function<int(int)>& position_of,
                    int n,
                    int place,
                    int64_t elems);

}  // namespace syncopate
