// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/sum_intervals.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "comm/inproc/radix_heap.h"
#include "comm/modelled_sums.h"

namespace syncopate::inproc {
namespace {

constexpr auto kAtOnce = ModelledSums::kAtOnce;

// Like Network and Scheduler to the last bit, as which of two messages comes
// first may depend on it.
class Messages {
 public:
  Messages(const Network::AlikeLinks& links, std::span<const PlannedSum> sums)
      : links_(links),
        sums_(sums),
        members_(sums.front().plan->num_classes()),
        intervals_(sums.size(), std::vector<SumInterval>(members_.size())) {}

  std::vector<std::vector<SumInterval>> intervals() {
    const int64_t num_first = std::min(kAtOnce, std::ssize(sums_));
    for (int64_t sum = 0; sum < num_first; ++sum)
      for (int m = 0; m < std::ssize(members_); ++m)
        begin(m, static_cast<int>(sum), 0);
    while (!events_.is_empty()) {
      const Event event = events_.pop();
      if (event.is_turn())
        proceed(event.member, event.sum, event.at);
      else
        arrive(event);
    }
    CHECK(num_ended_ == std::ssize(sums_) * std::ssize(members_));
    return std::move(intervals_);
  }

 private:
  struct Arrival {
    int sum, step;
    Time at;
  };
  // A member's part in one sum after the other, each kAtOnce behind.
  struct Strand {
    int sum = 0, step = 0;
    int64_t sent = 0, taken = 0;          // segments of that step
    std::array<Time, kWindow> left_at{};  // of the last segments sent
    bool waits = false;                   // for a message
    std::vector<Arrival> arrived;         // and not taken
  };
  struct Member {
    Time out_free = -kNever, in_free = -kNever;
    std::array<Strand, kAtOnce> strands;  // by sum % kAtOnce
  };
  // A message whose first byte reaches the receiver's link, or a strand's turn.
  struct Event {
    Time at;
    uint64_t place;         // among those of the same time
    int member, sum, step;  // of the receiver or of the strand
    Time service_s, last;   // when its last byte would reach a free link
    bool is_turn() const { return place >> 63 != 0; }
    bool operator>(const Event& other) const { return place > other.place; }
  };
  // As in the scheduler: messages come before strands, each in the order of
  // their senders or owners (below 2^23), then of serial numbers (below 2^40).
  static uint64_t place_of(bool is_turn, int owner, int64_t serial) {
    return uint64_t{is_turn} << 63 | static_cast<uint64_t>(owner) << 40 |
           static_cast<uint64_t>(serial);
  }

  Strand& strand_of(int member, int sum) {
    return members_[member].strands[sum % kAtOnce];
  }

  void turn_at(Time at, int member, int sum) {
    events_.push({at, place_of(true, member, sum), member, sum, 0, 0, 0});
  }

  void begin(int member, int sum, Time now) {
    const Time at = std::max(now, sums_[sum].entered_at[member]);
    intervals_[sum][member].begin = at;
    Strand& strand = strand_of(member, sum);
    strand.sum = sum;
    strand.step = 0;
    strand.sent = strand.taken = 0;
    strand.left_at.fill(at);
    turn_at(at, member, sum);
  }

  void arrive(const Event& message) {
    Member& to = members_[message.member];
    to.in_free = std::max(message.at, to.in_free) + message.service_s;
    const Time arrival = std::max(to.in_free, message.last);
    Strand& strand = strand_of(message.member, message.sum);
    strand.arrived.push_back({message.sum, message.step, arrival});
    // Others that end a sum earlier may have begun the next.
    if (!strand.waits || strand.sum != message.sum) return;
    strand.waits = false;
    turn_at(arrival, message.member, message.sum);
  }

  // The loop of Exchange::run() and of a ring's phase, until the strand has to
  // wait.
  void proceed(int member, int sum, Time now) {
    const std::span<const SumPlan::Step> steps =
        sums_[sum].plan->steps_of(member);
    Strand& strand = strand_of(member, sum);
    for (; strand.step < std::ssize(steps); ++strand.step) {
      const SumPlan::Step& step = steps[strand.step];
      const int64_t num_in = step.num_in();
      const int64_t num_out = step.num_out();
      for (;;) {
        const bool has_all = strand.taken == num_in;
        const int64_t may_send =
            has_all ? num_out : std::min(num_out, strand.taken + step.ahead);
        while (strand.sent < may_send) {
          const Time slot_free = strand.left_at[strand.sent % kWindow];
          if (slot_free > now) return turn_at(slot_free, member, sum);
          send(member, sum, step, now);
        }
        if (has_all) break;
        if (!take(strand, member, sum, now)) return;
      }
      const Time left_at = std::ranges::max(strand.left_at);
      if (left_at > now) return turn_at(left_at, member, sum);
      strand.sent = strand.taken = 0;
    }
    intervals_[sum][member].end = now;
    ++num_ended_;
    if (const int next = sum + static_cast<int>(kAtOnce);
        next < std::ssize(sums_))
      begin(member, next, now);
  }

  void send(int member, int sum, const SumPlan::Step& step, Time now) {
    Member& from = members_[member];
    Strand& strand = strand_of(member, sum);
    const int64_t elems = step.elems_of(strand.sent);
    const Time service = links_.service_s(wire_bytes(sums_[sum].wire, elems));
    const Time begins_at = std::max(now, from.out_free);
    from.out_free = begins_at + service;
    strand.left_at[strand.sent++ % kWindow] = from.out_free;
    for (const auto& [to, to_step] : step.to)
      events_.push({begins_at + links_.latency_s,
                    place_of(false, member, num_sent_++), to, sum, to_step,
                    service, from.out_free + links_.latency_s});
  }

  // Otherwise the strand gets a turn when there is one.
  bool take(Strand& strand, int member, int sum, Time now) {
    const auto first =
        std::ranges::find_if(strand.arrived, [&](const Arrival& arrival) {
          return arrival.sum == sum && arrival.step == strand.step;
        });
    if (first == strand.arrived.end()) {
      strand.waits = true;
      return false;
    }
    if (first->at > now) {
      turn_at(first->at, member, sum);
      return false;
    }
    strand.arrived.erase(first);
    ++strand.taken;
    return true;
  }

  const Network::AlikeLinks& links_;
  const std::span<const PlannedSum> sums_;
  std::vector<Member> members_;  // one of each class
  std::vector<std::vector<SumInterval>> intervals_;
  RadixHeap<Event> events_;
  int64_t num_sent_ = 0, num_ended_ = 0;
};

}  // namespace

std::vector<std::vector<SumInterval>> sum_intervals(
    const Network::AlikeLinks& links,
    std::span<const PlannedSum> sums) {
  return Messages(links, sums).intervals();
}

}  // namespace syncopate::inproc
