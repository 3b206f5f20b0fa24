// When a ring all-reduce (comm/ring.h) over links that are alike ends for each
// member, if member p begins at begin[p] and nothing else is on the links.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/inproc/network.h"
#include "comm/wire.h"

namespace syncopate::inproc {

// Message i of a member leaves at
//   D_p(i) = max(D_p(i-1) + s, A_p(i - ahead)),
//   A_p(i) = D_{p-1}(i) + s + latency,
// where s is the time that the message occupies a link: a recursion over all
// 2 N (N-1) messages. With chunks of one size and of one segment it is solved
// in O(N): a phase ends for member p at
//   (N-1) s + max_k (begin[p-k] + k latency), k = 0 .. N-1.
// That is what `is_exact = false` uses for chunks of one segment, as if all had
// the size of the largest, which is an element more than that of others.
std::vector<Time> ring_ends(const Network::AlikeLinks& links,
                            int64_t elems,
                            Wire wire,
                            bool is_exact,
                            std::span<const Time> begin);

}  // namespace syncopate::inproc
