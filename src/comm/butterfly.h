// All-reduce by recursive halving and doubling: Rabenseifner 2004; Thakur,
// Rabenseifner & Gropp 2005.
//
// Of N members P = 2^floor(log2 N) take part: where N > P, each odd position
// below 2 (N - P) first gives its values to the even one before it, and gets
// the sums in the end (fold, unfold). Then reduce-scatter by recursive halving
// (halving.h), and all-gather by doubling, its mirror image.
//
// Every element is summed in the same tree, with q the place among the P:
// folded pairs, then q with q xor P/2, these sums with those of q xor P/4, ...
//
// Bytes sent, of M: 2 (P-1)/P M in 2 log2 P messages each, chunks even to one
// element; by both of a folded pair M more, which is all that the odd one
// sends. In time: 2 log2 P latencies, and where N > P two messages of M more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/exchange.h"

namespace syncopate {

ReduceSteps butterfly_steps(int group_size, int position, int64_t elems);

}  // namespace syncopate
