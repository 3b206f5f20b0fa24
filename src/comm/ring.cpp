// With N members, chunk c of N, position p, successor p+1 and predecessor p-1:
//   reduce-scatter, step s = 0 .. N-2:  p sends chunk p-1-s,
//       receives chunk p-2-s and adds its own values to it;
//       the last one received is chunk p, whose sum p then owns
//   all-gather,     step s = 0 .. N-2:  p sends chunk p-s,
//       receives chunk p-1-s
// A chunk is sent in segments, so that one is forwarded while the next arrives;
// each element's sum is still formed in the order c+1, c+2, ..., c.
// SPDX-License-Identifier: Apache-2.0
#include "comm/ring.h"

#include <algorithm>
#include <array>

#include "comm/host_values.h"
#include "comm/segments.h"

namespace syncopate {
namespace {

using Phase = RingLayout::Phase;

class Ring {
 public:
  Ring(Endpoint& endpoint,
       const Group& group,
       std::span<float> values,
       Wire wire,
       Tag tag,
       Traffic kind)
      : endpoint_(endpoint),
        values_(values),
        wire_(wire),
        tag_(tag),
        kind_(kind),
        position_(group.position),
        next_(group.members[(position_ + 1) % group.size()]),
        previous_(group.members[(position_ + group.size() - 1) % group.size()]),
        layout_(group.size(), std::ssize(values)),
        slot_elems_(layout_.longest()) {
    staging_.grow(slot_elems_ * kAhead, values.data());
    if (wire_ == Wire::kBf16) {
      packed_in_.grow(slot_elems_ * kAhead, values.data());
      packed_out_.grow(slot_elems_ * kWindow, values.data());
    }
  }

  // What is sent at i was received at i - segments, so sends may run ahead of
  // receives by up to that many.
  //
  // There is no deadlock: at i, a member waits for its predecessor to have
  // reached i - ahead + 1, or for its successor to have received i - kWindow or
  // earlier. The member that is farthest behind can always proceed.
  void run(Phase phase) {
    const int64_t total = layout_.messages();
    const int64_t ahead = layout_.ahead();
    for (int64_t i = 0; i < std::min(kAhead, total); ++i) receive(phase, i);
    int64_t sent = 0;
    for (int64_t i = 0; i < total; ++i) {
      for (; sent < std::min(total, i + ahead); ++sent) send(phase, sent);
      endpoint_.wait(receives_[i % kAhead]);
      take(phase, i);
      if (i + kAhead < total) receive(phase, i + kAhead);
    }
    for (Request& request : sends_) {
      endpoint_.wait(request);
      request = nullptr;
    }
  }

  // All members must end with the values as sent.
  void round_own_chunk() {
    const ElemRange own = layout_.chunk(position_);
    round_to_bf16(values_.data() + own.first, own.elems);
  }

 private:
  ElemRange sent(Phase phase, int64_t i) const {
    return layout_.sent(phase, position_, i);
  }
  ElemRange received(Phase phase, int64_t i) const {
    return layout_.received(phase, position_, i);
  }

  void send(Phase phase, int64_t i) {
    Request& slot = sends_[i % kWindow];
    endpoint_.wait(slot);
    const ElemRange range = sent(phase, i);
    const float* from = values_.data() + range.first;
    if (wire_ == Wire::kF32) {
      slot = endpoint_.isend({from, range.elems * 4}, next_, tag_, kind_);
      return;
    }
    uint16_t* packed = packed_out_.data() + i % kWindow * slot_elems_;
    pack_bf16(packed, from, range.elems);
    slot = endpoint_.isend({packed, range.elems * 2}, next_, tag_, kind_);
  }

  void receive(Phase phase, int64_t i) {
    const ElemRange range = received(phase, i);
    Bytes to;
    if (wire_ == Wire::kBf16)
      to = {packed_in_.data() + i % kAhead * slot_elems_, range.elems * 2};
    else if (phase == Phase::kReduceScatter)
      to = {staging_.data() + i % kAhead * slot_elems_, range.elems * 4};
    else
      to = {values_.data() + range.first, range.elems * 4};
    receives_[i % kAhead] = endpoint_.irecv(to, previous_, tag_);
  }

  void take(Phase phase, int64_t i) {
    const ElemRange range = received(phase, i);
    float* own = values_.data() + range.first;
    float* staged = staging_.data() + i % kAhead * slot_elems_;
    if (wire_ == Wire::kBf16) {
      const uint16_t* packed = packed_in_.data() + i % kAhead * slot_elems_;
      float* to = phase == Phase::kAllGather ? own : staged;
      unpack_bf16(to, packed, range.elems);
    }
    if (phase == Phase::kReduceScatter) add_values(own, staged, range.elems);
  }

  Endpoint& endpoint_;
  std::span<float> values_;
  const Wire wire_;
  const Tag tag_;
  const Traffic kind_;
  const int position_, next_, previous_;
  const RingLayout layout_;
  const int64_t slot_elems_;
  Scratch<float> staging_;
  Scratch<uint16_t> packed_in_, packed_out_;
  std::array<Request, kAhead> receives_;
  std::array<Request, kWindow> sends_;
};

}  // namespace

void ring_all_reduce(Endpoint& endpoint,
                     const Group& group,
                     std::span<float> values,
                     Wire wire,
                     Tag tag,
                     Traffic kind) {
  if (group.size() == 1) return;
  Ring ring(endpoint, group, values, wire, tag, kind);
  ring.run(Phase::kReduceScatter);
  if (wire == Wire::kBf16) ring.round_own_chunk();
  ring.run(Phase::kAllGather);
}

void ring_reduce_scatter(Endpoint& endpoint,
                         const Group& group,
                         std::span<float> values,
                         Wire wire,
                         Tag tag,
                         Traffic kind) {
  if (group.size() == 1) return;
  Ring(endpoint, group, values, wire, tag, kind).run(Phase::kReduceScatter);
}

void ring_all_gather(Endpoint& endpoint,
                     const Group& group,
                     std::span<float> values,
                     Wire wire,
                     Tag tag,
                     Traffic kind) {
  if (group.size() == 1) return;
  Ring(endpoint, group, values, wire, tag, kind).run(Phase::kAllGather);
}

int64_t ring_elems_sent(int group_size, int position, int64_t elems) {
  const RingLayout layout(group_size, elems);
  // Reduce-scatter: every chunk but its own; all-gather: but its successor's.
  return 2 * elems - layout.chunk(position).elems -
         layout.chunk((position + 1) % group_size).elems;
}

// --- RingLayout --------------------------------------------------------------

RingLayout::RingLayout(int group_size, int64_t elems)
    : n_(group_size), elems_(elems) {
  const int64_t largest = (elems + n_ - 1) / n_;
  segments_ = std::max<int64_t>(1, num_segments(largest));
  slot_elems_ = std::min(largest, kSegmentElems);
}

// The first elems % n chunks have one element more.
ElemRange RingLayout::chunk(int position) const {
  const auto begin_of = [this](int64_t c) {
    return elems_ / n_ * c + std::min<int64_t>(elems_ % n_, c);
  };
  const int64_t begin = begin_of(position);
  return {begin, begin_of(position + 1) - begin};
}

ElemRange RingLayout::sent(Phase phase, int position, int64_t i) const {
  const int start = phase == Phase::kReduceScatter ? position - 1 : position;
  const int c = start - static_cast<int>(i / segments_);
  return segment_of(chunk(((c % n_) + n_) % n_), i % segments_);
}

ElemRange RingLayout::received(Phase phase, int position, int64_t i) const {
  return sent(phase, position - 1, i);
}

}  // namespace syncopate
