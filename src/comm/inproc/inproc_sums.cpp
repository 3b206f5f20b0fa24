// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/inproc_sums.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "comm/ring.h"

namespace syncopate::inproc {
namespace {

constexpr Time kNever = std::numeric_limits<Time>::infinity();

// A phase of the ring, message by message.
void run_phase(const Network::AlikeLinks& links,
               const RingLayout& layout,
               RingLayout::Phase phase,
               Wire wire,
               std::span<Time> in_free,
               std::span<Time> times) {
  const int n = static_cast<int>(times.size());
  const int64_t ahead = layout.ahead();
  std::vector<Time> out_free(times.begin(), times.end());
  std::vector<Time> service(n);  // of message i of each member
  // Arrivals of the last `ahead` messages; at first, when members may send.
  std::vector<std::vector<Time>> arrived(
      ahead, std::vector<Time>(times.begin(), times.end()));
  for (int64_t i = 0; i < layout.messages(); ++i) {
    std::vector<Time>& at = arrived[i % ahead];
    for (int p = 0; p < n; ++p) {
      const int64_t elems = layout.sent(phase, p, i).elems;
      service[p] = links.message_s +
                   links.byte_s * static_cast<double>(wire_bytes(wire, elems));
      out_free[p] = std::max(out_free[p], at[p]) + service[p];
    }
    for (int p = 0; p < n; ++p) {
      const int from = (p + n - 1) % n;
      const Time first = out_free[from] - service[from] + links.latency_s;
      in_free[p] = std::max(first, in_free[p]) + service[from];
      at[p] = in_free[p];
    }
  }
  for (int p = 0; p < n; ++p) times[p] = std::max(in_free[p], out_free[p]);
}

// times[p] = (N - 1) service + max over k of times[p - k] + k latency.
void run_alike_phase(Time latency, Time service, std::span<Time> times) {
  const auto n = static_cast<int64_t>(times.size());
  // k is p - q for a member q <= p, and p - q + N for one behind p.
  std::vector<Time> behind(n + 1, 0);
  for (int64_t q = n - 1; q >= 0; --q) {
    const Time own = times[q] - static_cast<double>(q) * latency;
    behind[q] = q == n - 1 ? own : std::max(own, behind[q + 1]);
  }
  Time before = behind[0];
  for (int64_t p = 0; p < n; ++p) {
    const Time own = times[p] - static_cast<double>(p) * latency;
    before = p == 0 ? own : std::max(before, own);
    Time latest = before + static_cast<double>(p) * latency;
    if (p + 1 < n)
      latest = std::max(latest,
                        behind[p + 1] + static_cast<double>(p + n) * latency);
    times[p] = static_cast<double>(n - 1) * service + latest;
  }
}

}  // namespace

std::vector<Time> ring_ends(const Network::AlikeLinks& links,
                            int64_t elems,
                            Wire wire,
                            bool is_exact,
                            std::span<const Time> begin) {
  std::vector<Time> times(begin.begin(), begin.end());
  const int n = static_cast<int>(begin.size());
  if (n == 1) return times;
  const RingLayout layout(n, elems);
  std::vector<Time> in_free(n, -kNever);  // what arrives early is kept
  using enum RingLayout::Phase;
  for (const RingLayout::Phase phase : {kReduceScatter, kAllGather}) {
    if (is_exact || layout.segments() > 1)
      run_phase(links, layout, phase, wire, in_free, times);
    else
      run_alike_phase(
          links.latency_s,
          links.message_s + links.byte_s * static_cast<double>(wire_bytes(
                                               wire, layout.longest())),
          times);
  }
  return times;
}

InprocSums::InprocSums(Network& network,
                       Scheduler& scheduler,
                       std::vector<TrafficCounters>& traffic)
    : network_(network),
      scheduler_(scheduler),
      traffic_(traffic),
      alike_(network.alike_links()),
      links_(traffic.size()) {}

bool InprocSums::knows(CollectiveAlgorithm algorithm) const {
  // Workers whose links are all alike share a host.
  return alike_ && (algorithm == CollectiveAlgorithm::kRing ||
                    algorithm == CollectiveAlgorithm::kHierarchical);
}

void InprocSums::enter(const Group& group,
                       Time at,
                       int64_t elems,
                       CollectiveAlgorithm algorithm,
                       Wire wire,
                       Traffic kind) {
  CHECK(knows(algorithm));
  scheduler_.check_alive();
  scheduler_.note_progress();
  const int n = group.size();
  if (n == 1) return;
  const Strand& self = scheduler_.current();
  traffic_[self.rank].count(
      kind, all_reduce_bytes(algorithm, n, group.position, elems, wire),
      2 * RingLayout(n, elems).messages());
  Link& link = links_[self.rank];
  if (link.members.data() != group.members.data()) {
    CHECK(link.is_finished);
    link.members = group.members;
    link.group = &groups_[group.members];
    link.group->num_entered.resize(n, 0);
  }
  if (link.is_finished) link.intervals.clear();
  link.is_finished = false;
  ++link.num_unsolved;
  GroupSums& sums = *link.group;
  const int64_t index = sums.num_entered[group.position]++ - sums.num_solved;
  if (index == std::ssize(sums.open))
    sums.open.push_back({elems, wire, 0, std::vector<Time>(n)});
  Open& sum = sums.open[index];
  CHECK_MSG(sum.elems == elems && sum.wire == wire,
            "members of a sum bring {} and {} values", sum.elems, elems);
  sum.entered_at[group.position] = at;
  if (++sum.num_entered < n) return;
  CHECK(index == 0);
  const Open complete = std::move(sum);
  sums.open.pop_front();
  ++sums.num_solved;
  solve(complete, group);
}

std::vector<Time> InprocSums::ends_of(int64_t elems,
                                      Wire wire,
                                      std::span<const Time> begin) const {
  const bool is_exact = std::ssize(links_) <= kExactWorld;
  return ring_ends(*alike_, elems, wire, is_exact, begin);
}

Time InprocSums::duration_s(int num_members, int64_t elems, Wire wire) {
  const auto [found, is_new] =
      durations_.try_emplace({num_members, elems, wire});
  if (is_new)
    found->second = std::ranges::max(
        ends_of(elems, wire, std::vector<Time>(num_members, 0)));
  return found->second;
}

void InprocSums::solve(const Open& sum, const Group& group) {
  const int n = group.size();
  const RingLayout layout(n, sum.elems);
  const auto messages = static_cast<double>(2 * layout.messages());
  const Time last_entered_at = std::ranges::max(sum.entered_at);
  std::vector<Time> begin = sum.entered_at;
  for (int p = 0; p < n; ++p) {
    const int rank = group.members[p];
    Link& link = links_[rank];
    while (link.num_under_way > 0 &&
           link.under_way[0].number + kAtOnce <= link.num_given)
      end_next(rank);
    begin[p] = std::max(begin[p], link.ended_at[link.num_given % kAtOnce]);
  }
  const std::vector<Time> ends = ends_of(sum.elems, sum.wire, begin);
  const Time alone_s = duration_s(n, sum.elems, sum.wire) / messages;
  for (int p = 0; p < n; ++p) {
    const int rank = group.members[p];
    Link& link = links_[rank];
    const Time message_s =
        alike_->message_s +
        alike_->byte_s *
            static_cast<double>(
                wire_bytes(sum.wire, ring_elems_sent(n, p, sum.elems))) /
            messages;
    UnderWay own{.number = link.num_given++,
                 .messages = messages,
                 .message_s = message_s,
                 .alone_s = alone_s,
                 .entered_at = begin[p],
                 .begins_at = std::max(begin[p], ends[p] - messages * alone_s),
                 .ends_alone_at = ends[p]};
    if (link.num_under_way == 0)
      link.now = std::max(own.begins_at, network_.out_free(rank));
    if (own.begins_at < link.now) {
      own.ends_alone_at += link.now - own.begins_at;
      own.begins_at = link.now;
    }
    link.under_way[link.num_under_way++] = own;
    link.last_entered_at = std::max(link.last_entered_at, last_entered_at);
    if (--link.num_unsolved == 0 && link.waiting != nullptr)
      scheduler_.wake(*link.waiting, last_entered_at);
  }
}

// Sums that are under way together take turns on the worker's link. None begins
// later that could have delayed one of them, since it would have been entered
// before.
void InprocSums::end_next(int rank) {
  Link& link = links_[rank];
  const std::span<UnderWay> sums(link.under_way.data(), link.num_under_way);
  for (;;) {
    Time turn_s = 0;
    int num_begun = 0;
    Time next = kNever;  // when one ends or begins
    for (const UnderWay& sum : sums) {
      if (sum.begins_at > link.now) {
        next = std::min(next, sum.begins_at);
        continue;
      }
      turn_s += sum.message_s;
      ++num_begun;
    }
    const auto interval = [&](const UnderWay& sum) {
      return std::max(turn_s, sum.alone_s);
    };
    UnderWay* first = nullptr;  // to end
    for (UnderWay& sum : sums) {
      if (sum.begins_at > link.now) continue;
      sum.has_shared |= num_begun > 1;
      // Alone, it ends to the last bit when ring_ends() says.
      const Time ends_at = sum.has_shared
                               ? link.now + sum.messages * interval(sum)
                               : sum.ends_alone_at;
      if (ends_at > next) continue;
      next = ends_at;
      first = &sum;
    }
    for (UnderWay& sum : sums)
      if (const Time each = interval(sum);
          sum.begins_at <= link.now && each > 0)
        sum.messages = std::max(0.0, sum.messages - (next - link.now) / each);
    link.now = next;
    if (first == nullptr) continue;
    link.ended_at[first->number % kAtOnce] = next;
    if (!link.intervals.empty() &&
        first->entered_at <= link.intervals.back().second) {
      auto& [begin, end] = link.intervals.back();
      begin = std::min(begin, first->entered_at);
      end = next;
    } else {
      link.intervals.emplace_back(first->entered_at, next);
    }
    network_.out_free(rank) = next - alike_->latency_s;
    std::move(first + 1, sums.data() + sums.size(), first);
    --link.num_under_way;
    return;
  }
}

ModelledSums::Times InprocSums::finish() {
  scheduler_.check_alive();
  Strand& self = scheduler_.current();
  Link& link = links_[self.rank];
  while (link.num_unsolved > 0) {
    link.waiting = &self;
    scheduler_.block([&link] {
      const auto& num_entered = link.group->num_entered;
      const auto behind =
          std::ranges::find(num_entered, link.group->num_solved);
      const int rank = link.members[behind - num_entered.begin()];
      return Awaited{fmt::format("worker {} in an all-reduce of {} workers",
                                 rank, link.members.size()),
                     rank};
    });
  }
  link.waiting = nullptr;
  while (link.num_under_way > 0) end_next(self.rank);
  if (link.is_finished) link.intervals.clear();
  link.is_finished = true;
  Time last = self.time;
  for (const auto& [begin, end] : link.intervals) last = std::max(last, end);
  scheduler_.sleep_until(last);
  return {link.intervals, std::exchange(link.last_entered_at, 0)};
}

}  // namespace syncopate::inproc
