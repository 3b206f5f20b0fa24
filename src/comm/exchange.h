// Pairs of members that exchange ranges of their values: the step from which
// butterfly, binary blocks and the parameter server are built.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <vector>

#include "comm/endpoint.h"
#include "comm/host_values.h"
#include "comm/segments.h"
#include "comm/wire.h"

namespace syncopate {

// What one member exchanges with one peer (a position in the group). Empty
// ranges are not sent; the two ranges are disjoint or equal.
struct ExchangeStep {
  int peer = 0;
  ElemRange out, in;
};

// The first half of an all-reduce as one member sees it: received values are
// added to its own, and afterwards the member holds the complete sum of `own`.
// The second half is the mirror image: the steps run from last to first,
// sending `in` and storing `out` as received.
struct ReduceSteps {
  std::vector<ExchangeStep> steps;
  ElemRange own;
};

// Returns how many elements the member sends in both halves.
int64_t elems_sent(const ReduceSteps& reduce);

class Exchange {
 public:
  Exchange(Endpoint& endpoint,
           const Group& group,
           std::span<float> values,
           Wire wire,
           Tag tag,
           Traffic kind);

  enum class Take : uint8_t { kAdd, kReplace };
  void run(const ExchangeStep& step, Take take);
  // Runs both halves. Between them, `own` is rounded to the wire format so that
  // all members end with the same values.
  void run(const ReduceSteps& reduce);

 private:
  void send(int64_t i);
  void receive(int64_t i);
  void take_in(int64_t i, Take take);

  Endpoint& endpoint_;
  const Group& group_;
  std::span<float> values_;
  const Wire wire_;
  const Tag tag_;
  const Traffic kind_;
  ExchangeStep step_;                         // in progress
  int64_t slot_elems_ = 0;                    // of the longest segment of
                                              // step_
  bool is_direct_ = false;                    // received in place
  Scratch<float> staged_;                     // kAhead slots
  Scratch<uint16_t> packed_in_, packed_out_;  // kAhead, kWindow slots
  std::array<Request, kAhead> receives_;
  std::array<Request, kWindow> sends_;
};

}  // namespace syncopate
