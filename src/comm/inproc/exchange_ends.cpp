// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/exchange_ends.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <queue>
#include <tuple>

#include "base/check.h"

namespace syncopate::inproc {
namespace {

// A member's steps of both halves, as Exchange::run() takes them.
std::vector<ExchangeStep> both_halves(const ReduceSteps& reduce) {
  std::vector<ExchangeStep> steps = reduce.steps;
  for (auto step = reduce.steps.rbegin(); step != reduce.steps.rend(); ++step)
    steps.push_back({step->peer, step->in, step->out});
  return steps;
}

// --- Message by message ------------------------------------------------------

class Messages {
 public:
  Messages(const Network::AlikeLinks& links,
           StepsOf steps_of,
           int64_t elems,
           Wire wire,
           std::span<const Time> begin)
      : links_(links), wire_(wire), members_(begin.size()) {
    const int n = static_cast<int>(begin.size());
    for (int p = 0; p < n; ++p) {
      members_[p].steps = both_halves(steps_of(n, p, elems));
      members_[p].now = members_[p].out_free = begin[p];
    }
  }

  std::vector<Time> ends() {
    for (int p = 0; p < std::ssize(members_); ++p) proceed(p);
    while (!under_way_.empty()) {
      const UnderWay message = under_way_.top();
      under_way_.pop();
      Member& to = members_[message.to];
      to.in_free = std::max(message.first, to.in_free) + message.service_s;
      to.arrived.push_back({message.from, to.in_free});
      proceed(message.to);
    }
    std::vector<Time> ends;
    for (const Member& member : members_) {
      CHECK(member.step == member.steps.size());
      ends.push_back(member.now);
    }
    return ends;
  }

 private:
  struct Arrival {
    int from;
    Time at;
  };
  struct Member {
    std::vector<ExchangeStep> steps;
    size_t step = 0;
    int64_t sent = 0, taken = 0;  // segments of that step
    Time now = 0, out_free = 0, in_free = -kNever;
    std::deque<Arrival> arrived;  // and not taken
  };
  // On the way to the receiver's link, which its first byte reaches at `first`.
  struct UnderWay {
    Time first;
    int from, to;
    int64_t serial;
    Time service_s;
    bool operator<(const UnderWay& other) const {  // the last goes first
      return std::tie(first, from, serial) >
             std::tie(other.first, other.from, other.serial);
    }
  };

  // As far as messages have arrived: the loop of Exchange::run().
  void proceed(int p) {
    Member& member = members_[p];
    for (; member.step < member.steps.size(); ++member.step) {
      const ExchangeStep& step = member.steps[member.step];
      const int64_t num_out = num_segments(step.out.elems);
      const int64_t num_in = num_segments(step.in.elems);
      for (;;) {
        const int64_t may_send = member.taken < num_in
                                     ? std::min(num_out, member.taken + kAhead)
                                     : num_out;
        while (member.sent < may_send) send(p, step);
        if (member.taken == num_in) break;
        if (!take(member, step.peer)) return;
      }
      member.now = std::max(member.now, member.out_free);
      member.sent = member.taken = 0;
    }
  }

  void send(int p, const ExchangeStep& step) {
    Member& member = members_[p];
    const Time service = links_.service_s(
        wire_bytes(wire_, segment_of(step.out, member.sent++).elems));
    const Time begin = std::max(member.now, member.out_free);
    member.out_free = begin + service;
    under_way_.push(
        {begin + links_.latency_s, p, step.peer, num_sent_++, service});
  }

  bool take(Member& member, int from) {
    const auto first = std::ranges::find(member.arrived, from, &Arrival::from);
    if (first == member.arrived.end()) return false;
    member.now = std::max(member.now, first->at);
    member.arrived.erase(first);
    ++member.taken;
    return true;
  }

  const Network::AlikeLinks& links_;
  const Wire wire_;
  std::vector<Member> members_;  // by position
  std::priority_queue<UnderWay> under_way_;
  int64_t num_sent_ = 0;
};

// --- Exchange by exchange ----------------------------------------------------

// The segments of a range, on a link.
struct Segments {
  int64_t count = 0;
  Time each_s = 0, last_s = 0, all_s = 0;
  // Whether a sender waits for segments of its peer, and not only for its link.
  bool may_wait = false;
};

Segments segments_of(const Network::AlikeLinks& links,
                     Wire wire,
                     int64_t elems) {
  Segments segments;
  segments.count = num_segments(elems);
  segments.each_s =
      links.service_s(wire_bytes(wire, std::min(elems, kSegmentElems)));
  const int64_t before_last = segments.count - 1;
  segments.last_s =
      links.service_s(wire_bytes(wire, elems - before_last * kSegmentElems));
  segments.all_s =
      static_cast<double>(before_last) * segments.each_s + segments.last_s;
  // The member that comes last sends without a pause if latency <= 3 each_s,
  // and the other's segments, sent with one, are there in time if 2 latency <=
  // 3 each_s.
  segments.may_wait =
      segments.count > kAhead && 2 * links.latency_s > 3 * segments.each_s;
  return segments;
}

struct Side {
  Time now, in_free;
};

// Segment i is sent once i - kAhead has been received.
void exchange_segments(const Segments& segments,
                       Time latency,
                       Side& a,
                       Side& b) {
  std::array<Time, kAhead> at_a, at_b;  // arrivals of the last ones
  at_a.fill(a.now);
  at_b.fill(b.now);
  Time out_a = a.now, out_b = b.now;
  for (int64_t i = 0; i < segments.count; ++i) {
    const Time service =
        i + 1 < segments.count ? segments.each_s : segments.last_s;
    Time& slot_a = at_a[i % kAhead];
    Time& slot_b = at_b[i % kAhead];
    const Time from_a = std::max(out_a, slot_a);
    const Time from_b = std::max(out_b, slot_b);
    out_a = from_a + service;
    out_b = from_b + service;
    slot_a = a.in_free = std::max(from_b + latency, a.in_free) + service;
    slot_b = b.in_free = std::max(from_a + latency, b.in_free) + service;
  }
  a.now = std::max(out_a, a.in_free);
  b.now = std::max(out_b, b.in_free);
}

}  // namespace

std::vector<Time> exchange_ends(const Network::AlikeLinks& links,
                                StepsOf steps_of,
                                int64_t elems,
                                Wire wire,
                                std::span<const Time> begin) {
  return Messages(links, steps_of, elems, wire, begin).ends();
}

ExchangeOrder::ExchangeOrder(StepsOf steps_of, int group_size) {
  // So large that all members' ranges are 2^-k of it.
  constexpr int kMostHalvings = 32;
  const auto halvings_of = [](const ElemRange& range) {
    return static_cast<int8_t>(
        kMostHalvings - std::countr_zero(static_cast<uint64_t>(range.elems)));
  };
  std::vector<std::vector<ExchangeStep>> steps;  // by position
  for (int p = 0; p < group_size; ++p)
    steps.push_back(
        both_halves(steps_of(group_size, p, int64_t{1} << kMostHalvings)));
  std::vector<size_t> done(group_size, 0);
  std::deque<int> may_proceed;
  for (int p = 0; p < group_size; ++p) may_proceed.push_back(p);
  const auto next_of = [&](int p) -> const ExchangeStep* {
    return done[p] < steps[p].size() ? &steps[p][done[p]] : nullptr;
  };
  for (; !may_proceed.empty(); may_proceed.pop_front()) {
    const int p = may_proceed.front();
    const ExchangeStep* const own = next_of(p);
    if (own == nullptr) continue;
    const ExchangeStep* const other = next_of(own->peer);
    if (other == nullptr || other->peer != p) continue;
    const bool sends = own->out.elems > 0;
    pairs_.push_back({sends ? p : own->peer, sends ? own->peer : p,
                      halvings_of(sends ? own->out : own->in),
                      sends && own->in.elems > 0});
    ++done[p];
    ++done[own->peer];
    may_proceed.push_back(p);
    may_proceed.push_back(own->peer);
  }
  for (int p = 0; p < group_size; ++p) CHECK(next_of(p) == nullptr);
}

std::vector<Time> ExchangeOrder::ends(const Network::AlikeLinks& links,
                                      int64_t elems,
                                      Wire wire,
                                      std::span<const Time> begin) const {
  std::vector<Time> times(begin.begin(), begin.end());
  if (elems == 0) return times;
  std::array<Segments, 32> ranges;  // by halvings
  for (size_t k = 0; k < ranges.size(); ++k)
    ranges[k] = segments_of(links, wire, ((elems - 1) >> k) + 1);
  std::vector<Side> sides;
  for (const Time time : begin) sides.push_back({time, -kNever});
  for (const Pair& pair : pairs_) {
    const Segments& range = ranges[pair.halvings];
    Side& from = sides[pair.from];
    Side& to = sides[pair.to];
    if (pair.is_mutual && range.may_wait) {
      exchange_segments(range, links.latency_s, from, to);
      continue;
    }
    to.in_free = std::max(from.now + links.latency_s, to.in_free) + range.all_s;
    if (pair.is_mutual) {
      from.in_free =
          std::max(to.now + links.latency_s, from.in_free) + range.all_s;
      to.now = std::max(to.now + range.all_s, to.in_free);
      from.now = std::max(from.now + range.all_s, from.in_free);
    } else {
      from.now += range.all_s;
      to.now = std::max(to.now, to.in_free);
    }
  }
  for (size_t p = 0; p < times.size(); ++p) times[p] = sides[p].now;
  return times;
}

}  // namespace syncopate::inproc
