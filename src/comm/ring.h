// The ring all-reduce: reduce-scatter, then all-gather, of the range divided
// into N chunks (sizes differ by at most one element; any count including 0):
// Patarasuk & Yuan 2009. Chunk c is summed in the order c+1, c+2, ..., c.
//
// For a range of M bytes, each member sends 2 (N-1)/N M in 2 (N-1) steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/endpoint.h"
#include "comm/segments.h"
#include "comm/wire.h"

namespace syncopate {

// Which elements each message holds. A chunk is sent in segments; message i of
// a phase's stream is segment i % segments() of the chunk of step i /
// segments().
class RingLayout {
 public:
  enum class Phase : uint8_t { kReduceScatter, kAllGather };

  RingLayout(int group_size, int64_t elems);

  int64_t segments() const { return segments_; }  // per chunk; may be empty
  // How many messages a member sends in a phase, and receives.
  int64_t messages() const { return (n_ - 1) * segments_; }
  // By how many messages sends run ahead of receives: message i is sent once
  // message i - ahead() has been received.
  int64_t ahead() const { return std::min(kAhead, segments_); }
  int64_t longest() const { return slot_elems_; }  // elements of a message
  ElemRange chunk(int position) const;

  ElemRange sent(Phase phase, int position, int64_t i) const;
  ElemRange received(Phase phase, int position, int64_t i) const;

 private:
  int n_;
  int64_t elems_, segments_, slot_elems_;
};

void ring_all_reduce(Endpoint& endpoint,
                     const Group& group,
                     std::span<float> values,
                     Wire wire,
                     Tag tag,
                     Traffic kind);

// Its two halves. In between, the member at position p holds the sum of chunk p
// of RingLayout; with Wire::kBf16, chunks must be rounded before the second, so
// that all members end with the same values.
void ring_reduce_scatter(Endpoint& endpoint,
                         const Group& group,
                         std::span<float> values,
                         Wire wire,
                         Tag tag,
                         Traffic kind);
void ring_all_gather(Endpoint& endpoint,
                     const Group& group,
                     std::span<float> values,
                     Wire wire,
                     Tag tag,
                     Traffic kind);

int64_t ring_elems_sent(int group_size, int position, int64_t elems);

}  // namespace syncopate
