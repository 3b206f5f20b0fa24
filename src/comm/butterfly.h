// All-reduce by recursive halving and doubling: Rabenseifner 2004; Thakur,
// Rabenseifner & Gropp 2005.
//
// P = 2^floor(log2 N) of the N members take part. If N > P, each odd position
// below 2 (N - P) first gives its values to the even position before it, and
// receives the sums at the end (fold, unfold). In between: reduce-scatter by
// recursive halving (halving.h), then its mirror image, all-gather by doubling.
//
// Every element is summed in the same tree, with q the place among the P
// members: folded pairs first, then q with q xor P/2, those sums with the sums
// of q xor P/4, ...
//
// Bytes sent, for a range of M bytes: 2 (P-1)/P M in 2 log2 P messages per
// member, with chunk sizes equal to within one element; each member of a folded
// pair sends M more, which is all that the odd one sends. Time: 2 log2 P
// latencies, plus two messages of M bytes if N > P.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/exchange.h"

namespace syncopate {

ReduceSteps butterfly_steps(int group_size, int position, int64_t elems);

}  // namespace syncopate
