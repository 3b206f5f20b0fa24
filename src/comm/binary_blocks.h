// All-reduce by Rabenseifner's binary blocks, for groups of any size without
// the butterfly's fold: Rabenseifner 1997; Thakur, Rabenseifner & Gropp 2005.
//
// The group is cut into blocks whose sizes are the powers of two that N is the
// sum of, the largest first (N = 7: positions 0-3, 4-5, 6):
//   1. each block: reduce-scatter by recursive halving (halving.h); a member of
//      a block of B has the block's sum of 1/B of the range
//   2. from the smallest block to the largest: every member cuts its sums into
//      B'/B parts for the members of the next larger block (of B') who have
//      those elements; these add them. The largest block has the sums of all.
//   3. the mirror image: sums from larger to smaller blocks, then all-gather by
//      doubling inside each
// An element's sum is S_1 + (S_2 + (S_3 + ..)), S_k that of the k-th largest
// block in the order of recursive halving.
//
// Bytes sent, of M, by a member of a block of B: 2 (B-1)/B M, and M/B each to
// the next larger and (one member of) the next smaller block where there are.
// N a power of two: the butterfly. N odd: the last block is one member, who
// sends M and gets M.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/exchange.h"

namespace syncopate {

ReduceSteps binary_blocks_steps(int group_size, int position, int64_t elems);

}  // namespace syncopate
