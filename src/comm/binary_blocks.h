// All-reduce by Rabenseifner's binary blocks, for groups of any size without
// the butterfly's fold: Rabenseifner 1997; Thakur, Rabenseifner & Gropp 2005.
//
// The group is divided into blocks whose sizes are the powers of two in the
// binary representation of N, largest first (N = 7: positions 0-3, 4-5, 6):
//   1. Each block does a reduce-scatter by recursive halving (halving.h): a
//      member of a block of size B gets the block's sum of 1/B of the range.
//   2. From the smallest block to the largest, every member splits its sums
//      into B'/B parts for those members of the next larger block (of size B')
//      that hold the same elements, and these add them. The largest block ends
//      with the complete sums.
//   3. The mirror image: sums go from larger to smaller blocks, followed by an
//      all-gather by doubling within each block.
// An element's sum is S_1 + (S_2 + (S_3 + ..)), where S_k is the sum of the
// k-th largest block in the order of recursive halving.
//
// For a range of M bytes, a member of a block of size B sends 2 (B-1)/B M
// bytes, plus M/B each to the next larger block and (from one member) to the
// next smaller one, if they exist. For N a power of two this is the butterfly.
// For N odd, the last block is a single member, which sends M and receives M.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/exchange.h"

namespace syncopate {

ReduceSteps binary_blocks_steps(int group_size, int position, int64_t elems);

}  // namespace syncopate
