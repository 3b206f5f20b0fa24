// SPDX-License-Identifier: Apache-2.0
#include "comm/exchange.h"

#include <algorithm>

namespace syncopate {

int64_t elems_sent(const ReduceSteps& reduce) {
  int64_t elems = 0;
  for (const ExchangeStep& step : reduce.steps)
    elems += step.out.elems + step.in.elems;
  return elems;
}

Exchange::Exchange(Endpoint& endpoint,
                   const Group& group,
                   std::span<float> values,
                   Wire wire,
                   Tag tag,
                   Traffic kind)
    : endpoint_(endpoint),
      group_(group),
      values_(values),
      wire_(wire),
      tag_(tag),
      kind_(kind) {}

void Exchange::run(const ReduceSteps& reduce) {
  for (const ExchangeStep& step : reduce.steps) run(step, Take::kAdd);
  if (wire_ == Wire::kBf16)
    round_to_bf16(values_.data() + reduce.own.first, reduce.own.elems);
  for (auto step = reduce.steps.rbegin(); step != reduce.steps.rend(); ++step)
    run({step->peer, step->in, step->out}, Take::kReplace);
}

void Exchange::run(const ExchangeStep& step, Take take) {
  step_ = step;
  const int64_t num_out = num_segments(step.out.elems);
  const int64_t num_in = num_segments(step.in.elems);
  slot_elems_ =
      std::min(kSegmentElems, std::max(step.out.elems, step.in.elems));
  const bool is_in_place = step.in.elems > 0 && step.out.elems > 0 &&
                           step.in.first == step.out.first;
  is_direct_ = wire_ == Wire::kF32 && take == Take::kReplace && !is_in_place;
  if (wire_ == Wire::kBf16) {
    packed_in_.grow(std::min(kAhead, num_in) * slot_elems_, values_.data());
    packed_out_.grow(std::min(kWindow, num_out) * slot_elems_, values_.data());
  }
  if (!is_direct_)
    staged_.grow(std::min(kAhead, num_in) * slot_elems_, values_.data());

  for (int64_t i = 0; i < std::min(kAhead, num_in); ++i) receive(i);
  int64_t sent = 0;
  for (int64_t i = 0; i < num_in; ++i) {
    for (; sent < std::min(num_out, i + kAhead); ++sent) send(sent);
    endpoint_.wait(receives_[i % kAhead]);
    // A buffer must stay unchanged until its send is complete.
    if (is_in_place) endpoint_.wait(sends_[i % kWindow]);
    take_in(i, take);
    if (i + kAhead < num_in) receive(i + kAhead);
  }
  for (; sent < num_out; ++sent) send(sent);
  for (Request& request : sends_) {
    endpoint_.wait(request);
    request = nullptr;
  }
}

void Exchange::send(int64_t i) {
  Request& slot = sends_[i % kWindow];
  endpoint_.wait(slot);
  const ElemRange range = segment_of(step_.out, i);
  const void* data = values_.data() + range.first;
  if (wire_ == Wire::kBf16) {
    uint16_t* packed = packed_out_.data() + i % kWindow * slot_elems_;
    pack_bf16(packed, values_.data() + range.first, range.elems);
    data = packed;
  }
  slot = endpoint_.isend({data, wire_bytes(wire_, range.elems)},
                         group_.members[step_.peer], tag_, kind_);
}

void Exchange::receive(int64_t i) {
  const ElemRange range = segment_of(step_.in, i);
  const int64_t slot = i % kAhead * slot_elems_;
  void* data = nullptr;
  if (wire_ == Wire::kBf16)
    data = packed_in_.data() + slot;
  else if (is_direct_)
    data = values_.data() + range.first;
  else
    data = staged_.data() + slot;
  receives_[i % kAhead] = endpoint_.irecv(
      {data, wire_bytes(wire_, range.elems)}, group_.members[step_.peer], tag_);
}

void Exchange::take_in(int64_t i, Take take) {
  if (is_direct_) return;
  const ElemRange range = segment_of(step_.in, i);
  const int64_t slot = i % kAhead * slot_elems_;
  float* own = values_.data() + range.first;
  float* staged = staged_.data() + slot;
  if (wire_ == Wire::kBf16)
    unpack_bf16(staged, packed_in_.data() + slot, range.elems);
  if (take == Take::kReplace)
    copy_values(own, staged, range.elems);
  else
    add_values(own, staged, range.elems);
}

}  // namespace syncopate
