// SPDX-License-Identifier: Apache-2.0
#include "comm/parameter_server.h"

#include <array>
#include <utility>
#include <vector>

#include "comm/exchange.h"

namespace syncopate {
namespace {

// Message i of the incoming stream is segment i / (N-1) of position 1 + i %
// (N-1).
//
// There is no deadlock: a worker at segment k has sent all up to k + kAhead - 1
// or waits for one of those sends to complete; the server waits for its
// earliest outstanding segment from any worker, or for an answer kWindow
// segments back to be taken.
class Server {
 public:
  Server(Endpoint& endpoint,
         const Group& group,
         std::span<float> values,
         Wire wire,
         Tag tag,
         Traffic kind)
      : endpoint_(endpoint),
        group_(group),
        values_(values),
        all_{0, static_cast<int64_t>(values.size())},
        wire_(wire),
        tag_(tag),
        kind_(kind),
        slot_elems_(std::min(all_.elems, kSegmentElems)) {
    staged_.grow(kAhead * slot_elems_, values.data());
    if (wire == Wire::kF32) return;
    packed_in_.grow(kAhead * slot_elems_, values.data());
    packed_out_.grow(kWindow * slot_elems_, values.data());
  }

  void run() {
    const int workers = group_.size() - 1;
    const int64_t total = num_segments(all_.elems) * workers;
    for (int64_t i = 0; i < std::min(kAhead, total); ++i) receive(i);
    for (int64_t i = 0; i < total; ++i) {
      endpoint_.wait(receives_[i % kAhead]);
      add(i);
      if (i + kAhead < total) receive(i + kAhead);
      if (i % workers == workers - 1) answer(i / workers);
    }
    for (auto& answers : answers_) {
      for (const Request& request : answers) endpoint_.wait(request);
    }
  }

 private:
  ElemRange range(int64_t i) const {
    return segment_of(all_, i / (group_.size() - 1));
  }

  void receive(int64_t i) {
    const int64_t slot = i % kAhead * slot_elems_;
    void* data = wire_ == Wire::kBf16
                     ? static_cast<void*>(packed_in_.data() + slot)
                     : static_cast<void*>(staged_.data() + slot);
    const auto from = static_cast<size_t>(1 + i % (group_.size() - 1));
    receives_[i % kAhead] = endpoint_.irecv(
        {data, wire_bytes(wire_, range(i).elems)}, group_.members[from], tag_);
  }

  void add(int64_t i) {
    const ElemRange segment = range(i);
    const int64_t slot = i % kAhead * slot_elems_;
    float* staged = staged_.data() + slot;
    if (wire_ == Wire::kBf16)
      unpack_bf16(staged, packed_in_.data() + slot, segment.elems);
    add_values(values_.data() + segment.first, staged, segment.elems);
  }

  void answer(int64_t k) {
    std::vector<Request>& answers = answers_[k % kWindow];
    for (const Request& request : answers) endpoint_.wait(request);
    answers.clear();
    const ElemRange segment = segment_of(all_, k);
    const void* data = values_.data() + segment.first;
    if (wire_ == Wire::kBf16) {
      uint16_t* packed = packed_out_.data() + k % kWindow * slot_elems_;
      float* sum = values_.data() + segment.first;
      pack_bf16(packed, sum, segment.elems);
      unpack_bf16(sum, packed, segment.elems);
      data = packed;
    }
    for (int p = 1; p < group_.size(); ++p)
      answers.push_back(
          endpoint_.isend({data, wire_bytes(wire_, segment.elems)},
                          group_.members[p], tag_, kind_));
  }

  Endpoint& endpoint_;
  const Group& group_;
  std::span<float> values_;
  const ElemRange all_;
  const Wire wire_;
  const Tag tag_;
  const Traffic kind_;
  const int64_t slot_elems_;
  Scratch<float> staged_;
  Scratch<uint16_t> packed_in_, packed_out_;
  std::array<Request, kAhead> receives_;
  std::array<std::vector<Request>, kWindow> answers_;
};

void exchange_with(Endpoint& endpoint,
                   const Group& group,
                   std::span<float> values,
                   Wire wire,
                   Tag tag,
                   Traffic kind) {
  const ElemRange all{0, static_cast<int64_t>(values.size())};
  Exchange(endpoint, group, values, wire, tag, kind)
      .run({0, all, all}, Exchange::Take::kReplace);
}

// The server is position 0 of a group in which all members follow it.
void all_reduce_apart(Endpoint& endpoint,
                      const Group& group,
                      std::span<float> values,
                      Wire wire,
                      Tag tag,
                      Traffic kind) {
  const int server = endpoint.server_rank(group.members[0]);
  Task serving;
  if (group.position == 0) {
    std::vector<int> members{server};
    members.insert(members.end(), group.members.begin(), group.members.end());
    serving = endpoint.serve_apart(
        "parameter server",
        [=, all = Group{Ranks(std::move(members)), 0}](Endpoint& own) {
          Scratch<float> sums;  // of zeros
          sums.grow(std::ssize(values), values.data());
          Server(own, all, {sums.data(), values.size()}, wire, tag, kind).run();
        });
  }
  exchange_with(endpoint, {Ranks({server}), -1}, values, wire, tag, kind);
  if (serving) endpoint.join(serving);
}

}  // namespace

void parameter_server_all_reduce(Endpoint& endpoint,
                                 const Group& group,
                                 std::span<float> values,
                                 Wire wire,
                                 Tag tag,
                                 Traffic kind) {
  if (group.size() == 1) return;
  if (endpoint.has_servers_apart())
    all_reduce_apart(endpoint, group, values, wire, tag, kind);
  else if (group.position == 0)
    Server(endpoint, group, values, wire, tag, kind).run();
  else
    exchange_with(endpoint, group, values, wire, tag, kind);
}

int64_t parameter_server_elems_sent(int group_size,
                                    int position,
                                    int64_t elems) {
  return position == 0 ? (group_size - 1) * elems : elems;
}

}  // namespace syncopate
