// When an all-reduce by exchanges between pairs (comm/exchange.h: butterfly and
// binary blocks) over links that are alike ends for each member, if member p
// begins at begin[p] and nothing else is on the links.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/exchange.h"
#include "comm/inproc/network.h"

namespace syncopate::inproc {

// butterfly_steps or binary_blocks_steps.
using StepsOf = ReduceSteps (*)(int group_size, int position, int64_t elems);

// Message by message in the order in which they reach the receivers' links:
// exact.
std::vector<Time> exchange_ends(const Network::AlikeLinks& links,
                                StepsOf steps_of,
                                int64_t elems,
                                Wire wire,
                                std::span<const Time> begin);

// The same in O(N log N): the exchanges of a group in an order in which each
// depends on earlier ones alone. Members a and b, at times t_a and t_b, that
// exchange ranges which occupy a link for s go on at
//   t_a' = max(t_a + s, i_a'),  i_a' = max(t_b + latency, i_a) + s,
// and likewise for b, where i is until when an incoming link is taken. Segments
// do not show, unless their way is so long that senders wait for them.
//
// Two things differ from messages. All ranges that are divided equally often
// have the size of the largest, which is an element more than that of others.
// And a link takes messages in the order of the steps, although those of later
// steps (kAhead segments of each) may come first and delay others: members that
// begin at times that differ by parts of the whole duration end up to a third
// of it later, less the more segments a range has, and not at all later if they
// begin together or all wait for the last. The unfolded members of a butterfly
// always come first.
class ExchangeOrder {
 public:
  ExchangeOrder(StepsOf steps_of, int group_size);

  std::vector<Time> ends(const Network::AlikeLinks& links,
                         int64_t elems,
                         Wire wire,
                         std::span<const Time> begin) const;

 private:
  struct Pair {
    int from, to;
    int8_t halvings;  // the range is elems / 2^halvings
    bool is_mutual;   // `to` also sends as much to `from`
  };
  std::vector<Pair> pairs_;
};

}  // namespace syncopate::inproc
