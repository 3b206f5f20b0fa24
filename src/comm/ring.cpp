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

// Returns where chunk `c` of `elems` in `n` chunks starts; the first `elems %
// n` chunks have one element more.
int64_t chunk_begin(int64_t elems, int n, int c) {
  return elems / n * c + std::min<int64_t>(elems % n, c);
}

enum class Phase : uint8_t { kReduceScatter, kAllGather };

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
        n_(group.size()),
        position_(group.position),
        next_(group.members[(position_ + 1) % n_]),
        previous_(group.members[(position_ + n_ - 1) % n_]) {
    const auto elems = static_cast<int64_t>(values.size());
    const int64_t largest = (elems + n_ - 1) / n_;
    segments_ = std::max<int64_t>(1, num_segments(largest));
    slot_elems_ = std::min(largest, kSegmentElems);
    staging_.grow(slot_elems_ * kAhead, values.data());
    if (wire_ == Wire::kBf16) {
      packed_in_.grow(slot_elems_ * kAhead, values.data());
      packed_out_.grow(slot_elems_ * kWindow, values.data());
    }
  }

  // Segment i of a phase's stream of messages is segment i % segments_ of the
  // chunk of step i / segments_. What is sent at i was received at i -
  // segments_, so sends may run ahead of receives by up to that many.
  //
  // There is no deadlock: at i, a member waits for its predecessor to have
  // reached i - ahead + 1, or for its successor to have received i - kWindow or
  // earlier. The member that is farthest behind can always proceed.
  void run(Phase phase) {
    const int64_t total = (n_ - 1) * segments_;
    const int64_t ahead = std::min(kAhead, segments_);
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
    const int64_t first = chunk_begin(size(), n_, position_);
    const int64_t last = chunk_begin(size(), n_, position_ + 1);
    round_to_bf16(values_.data() + first, last - first);
  }

 private:
  int64_t size() const { return static_cast<int64_t>(values_.size()); }

  ElemRange segment(int chunk, int64_t k) const {
    const int c = ((chunk % n_) + n_) % n_;
    const int64_t begin = chunk_begin(size(), n_, c);
    const int64_t end = chunk_begin(size(), n_, c + 1);
    const int64_t first = std::min(end, begin + k * kSegmentElems);
    return {first, std::min(end, first + kSegmentElems) - first};
  }
  ElemRange sent(Phase phase, int64_t i) const {
    const int s = static_cast<int>(i / segments_);
    const int start =
        phase == Phase::kReduceScatter ? position_ - 1 : position_;
    return segment(start - s, i % segments_);
  }
  ElemRange received(Phase phase, int64_t i) const {
    const int s = static_cast<int>(i / segments_);
    const int start =
        phase == Phase::kReduceScatter ? position_ - 2 : position_ - 1;
    return segment(start - s, i % segments_);
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
    if (wire_ == Wire::kBf16) {
      to = {packed_in_.data() + i % kAhead * slot_elems_, range.elems * 2};
    } else if (phase == Phase::kReduceScatter) {
      to = {staging_.data() + i % kAhead * slot_elems_, range.elems * 4};
    } else {
      to = {values_.data() + range.first, range.elems * 4};
    }
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
  const int n_, position_, next_, previous_;
  int64_t segments_ = 1;  // per chunk; the last may be empty
  int64_t slot_elems_ = 0;
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

int64_t ring_elems_sent(int group_size, int position, int64_t elems) {
  const auto chunk = [&](int c) {
    return chunk_begin(elems, group_size, c + 1) -
           chunk_begin(elems, group_size, c);
  };
  // Reduce-scatter: every chunk but its own; all-gather: but its successor's.
  return 2 * elems - chunk(position) - chunk((position + 1) % group_size);
}

}  // namespace syncopate
