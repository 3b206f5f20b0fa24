// Pairs of members that send each other ranges of their values: the step of
// which butterfly, binary blocks and the parameter server are made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <vector>

#include "comm/endpoint.h"
#include "comm/segments.h"
#include "comm/wire.h"

namespace syncopate {

// What one member does with one other (a position in the group). Empty ranges
// do not travel; the two ranges are disjoint or equal.
struct ExchangeStep {
  int peer = 0;
  ElemRange out, in;
};

// The first half of an all-reduce as one member sees it: what it takes in is
// added to its own. Afterwards `own` is what it has the whole sum of. The
// second half is the mirror image: the steps from the last to the first, `in`
// sent out and `out` taken in, as it is.
struct ReduceSteps {
  std::vector<ExchangeStep> steps;
  ElemRange own;
};

// Both halves: how many elements the member sends.
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
  // Both halves. Between them `own` is rounded to what travels: everyone ends
  // with the same values.
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
  ExchangeStep step_;                             // under way
  int64_t slot_elems_ = 0;                        // of its longest segment
  bool is_direct_ = false;                        // received where it belongs
  std::vector<float> staged_;                     // kAhead slots
  std::vector<uint16_t> packed_in_, packed_out_;  // kAhead, kWindow slots
  std::array<Request, kAhead> receives_;
  std::array<Request, kWindow> sends_;
};

}  // namespace syncopate
