// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/inproc_sums.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/binary_blocks.h"
#include "comm/butterfly.h"
#include "comm/inproc/ring_ends.h"
#include "comm/ring.h"

namespace syncopate::inproc {
namespace {

// Null if the algorithm does not consist of exchanges between pairs.
StepsOf steps_of(CollectiveAlgorithm algorithm) {
  if (algorithm == CollectiveAlgorithm::kButterfly) return butterfly_steps;
  if (algorithm == CollectiveAlgorithm::kBinaryBlocks)
    return binary_blocks_steps;
  return nullptr;
}

int64_t messages_sent(CollectiveAlgorithm algorithm,
                      int group_size,
                      int position,
                      int64_t elems) {
  const StepsOf steps = steps_of(algorithm);
  if (steps == nullptr) return 2 * RingLayout(group_size, elems).messages();
  int64_t messages = 0;
  for (const ExchangeStep& step : steps(group_size, position, elems).steps)
    messages += num_segments(step.out.elems) + num_segments(step.in.elems);
  return messages;
}

}  // namespace

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
  if (algorithm == CollectiveAlgorithm::kRing ||
      algorithm == CollectiveAlgorithm::kHierarchical)
    return alike_.has_value();
  return alike_ && steps_of(algorithm) != nullptr &&
         std::ssize(links_) > kSentWorld;
}

void InprocSums::enter(const Group& group,
                       Time at,
                       int64_t elems,
                       CollectiveAlgorithm algorithm,
                       Wire wire,
                       Traffic kind) {
  CHECK(alike_);
  scheduler_.check_alive();
  scheduler_.note_progress();
  const int n = group.size();
  if (n == 1) return;
  const Strand& self = scheduler_.current();
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
  const Shape shape{n, elems, algorithm, wire};
  if (index == std::ssize(sums.open))
    sums.open.push_back({shape, &cost_of(shape), 0, std::vector<Time>(n)});
  Open& sum = sums.open[index];
  CHECK_MSG(sum.shape == shape, "members of a sum bring {} and {} values",
            sum.shape.elems, elems);
  const Cost::Sent& sent = sum.cost->sent[group.position];
  traffic_[self.rank].count(kind, sent.bytes, sent.messages);
  sum.entered_at[group.position] = at;
  if (++sum.num_entered < n) return;
  CHECK(index == 0);
  const Open complete = std::move(sum);
  sums.open.pop_front();
  ++sums.num_solved;
  solve(complete, group);
}

std::vector<Time> InprocSums::ends_of(const Shape& shape,
                                      int64_t messages,
                                      Others others,
                                      std::span<const Time> begin) {
  const auto& [n, elems, algorithm, wire] = shape;
  const bool is_small = std::ssize(links_) <= kExactWorld;
  const StepsOf steps = steps_of(algorithm);
  if (steps == nullptr) return ring_ends(*alike_, elems, wire, is_small, begin);
  if (others == Others::kNone && (is_small || messages <= kExactMessages))
    return exchange_ends(*alike_, steps, elems, wire, begin);
  const auto& order =
      orders_.try_emplace({algorithm, n}, steps, n).first->second;
  return order.ends(*alike_, elems, wire, begin);
}

const InprocSums::Cost& InprocSums::cost_of(const Shape& shape) {
  const auto [found, is_new] = costs_.try_emplace(shape);
  Cost& cost = found->second;
  if (!is_new) return cost;
  const auto& [n, elems, algorithm, wire] = shape;
  for (int p = 0; p < n; ++p) {
    cost.sent.push_back({all_reduce_bytes(algorithm, n, p, elems, wire),
                         messages_sent(algorithm, n, p, elems)});
    cost.messages += cost.sent.back().messages;
  }
  cost.duration_s = std::ranges::max(
      ends_of(shape, cost.messages, Others::kOnLinks, std::vector<Time>(n, 0)));
  if (steps_of(algorithm) != nullptr)
    cost.phases = phases_of(shape, cost.duration_s);
  return cost;
}

// Steps that several sums at once would slow down alike are one phase: those
// that keep the link busy, and those that leave it free most of the time.
std::vector<InprocSums::Phase> InprocSums::phases_of(const Shape& shape,
                                                     Time duration_s) const {
  enum class Kind : uint8_t { kOut, kIn, kBusy, kFree, kBetween };
  const auto& [n, elems, algorithm, wire] = shape;
  const auto service_s = [&, wire = wire](int64_t range) {
    const auto messages = static_cast<double>(num_segments(range));
    return messages * alike_->message_s +
           alike_->byte_s * static_cast<double>(wire_bytes(wire, range));
  };
  const Time latency = alike_->latency_s;
  std::vector<Phase> phases;  // out_s, in_s, alone_s of all messages together
  Kind last = Kind::kBetween;
  const auto add = [&](const ExchangeStep& step) {
    const Time out_s = service_s(step.out.elems);
    const Time in_s = service_s(step.in.elems);
    const int64_t segments =
        num_segments(std::max(step.out.elems, step.in.elems));
    if (segments == 0) return;
    Kind kind = Kind::kBetween;
    if (step.in.elems == 0)
      kind = Kind::kOut;
    else if (step.out.elems == 0)
      kind = Kind::kIn;
    else if (out_s >= kAtOnce * latency)
      kind = Kind::kBusy;
    else if (kAtOnce * out_s <= latency)
      kind = Kind::kFree;
    if (kind == Kind::kBetween || kind != last) phases.emplace_back();
    last = kind;
    Phase& phase = phases.back();
    phase.messages += static_cast<double>(segments);
    phase.out_s += out_s;
    phase.in_s += in_s;
    phase.alone_s += std::max(out_s, in_s) + latency;
    duration_s -= std::max(out_s, in_s) + latency;
  };
  const ReduceSteps reduce = steps_of(algorithm)(n, 0, elems);
  for (const ExchangeStep& step : reduce.steps) add(step);
  const size_t half = phases.size();
  last = Kind::kBetween;
  for (auto step = reduce.steps.rbegin(); step != reduce.steps.rend(); ++step)
    add({step->peer, step->in, step->out});
  for (Phase& phase : phases) {
    phase.out_s /= phase.messages;
    phase.in_s /= phase.messages;
    phase.alone_s /= phase.messages;
  }
  // What is left, it waits for others.
  if (duration_s > 0)
    phases.insert(phases.begin() + static_cast<ptrdiff_t>(half),
                  {.messages = 1, .alone_s = duration_s});
  return phases;
}

void InprocSums::solve(const Open& sum, const Group& group) {
  const int n = group.size();
  const Time last_entered_at = std::ranges::max(sum.entered_at);
  std::vector<Time> begin = sum.entered_at;
  Others others = Others::kNone;
  for (int p = 0; p < n; ++p) {
    const int rank = group.members[p];
    Link& link = links_[rank];
    while (link.num_under_way > 0 &&
           link.under_way[0].number + kAtOnce <= link.num_given)
      end_next(rank);
    begin[p] = std::max(begin[p], link.ended_at[link.num_given % kAtOnce]);
    if (link.num_under_way > 0 || link.num_unsolved > 1)
      others = Others::kOnLinks;
  }
  const std::vector<Time> ends =
      ends_of(sum.shape, sum.cost->messages, others, begin);
  const Time duration_s = sum.cost->duration_s;
  for (int p = 0; p < n; ++p) {
    const int rank = group.members[p];
    Link& link = links_[rank];
    UnderWay own{.number = link.num_given++,
                 .phase = {},
                 .entered_at = begin[p],
                 .begins_at = std::max(begin[p], ends[p] - duration_s),
                 .ends_alone_at = ends[p]};
    if (const std::span<const Phase> phases = sum.cost->phases;
        !phases.empty()) {
      own.phase = phases.front();
      own.further = phases.subspan(1);
    } else {
      const Cost::Sent& sent = sum.cost->sent[p];
      const auto messages = static_cast<double>(sent.messages);
      const Time message_s =
          alike_->message_s +
          alike_->byte_s * static_cast<double>(sent.bytes) / messages;
      own.phase = {messages, message_s, message_s, duration_s / messages};
    }
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
  if (sums.size() == 1 && !sums[0].has_shared) sums[0].further = {};
  for (;;) {
    Time out_s = 0, in_s = 0;  // of one turn
    int num_begun = 0;
    Time next = kNever;  // when one, or its phase, ends or begins
    for (const UnderWay& sum : sums) {
      if (sum.begins_at > link.now) {
        next = std::min(next, sum.begins_at);
        continue;
      }
      out_s += sum.phase.out_s;
      in_s += sum.phase.in_s;
      ++num_begun;
    }
    const auto interval = [&](const UnderWay& sum) {
      return std::max({out_s, in_s, sum.phase.alone_s});
    };
    UnderWay* first = nullptr;  // to end
    for (UnderWay& sum : sums) {
      if (sum.begins_at > link.now) continue;
      sum.has_shared |= num_begun > 1;
      // Alone, it ends to the last bit when ends_of() says.
      const Time ends_at = sum.has_shared || !sum.further.empty()
                               ? link.now + sum.phase.messages * interval(sum)
                               : sum.ends_alone_at;
      if (ends_at > next) continue;
      next = ends_at;
      first = &sum;
    }
    for (UnderWay& sum : sums)
      if (const Time each = interval(sum);
          sum.begins_at <= link.now && each > 0)
        sum.phase.messages =
            std::max(0.0, sum.phase.messages - (next - link.now) / each);
    link.now = next;
    if (first == nullptr) continue;
    if (!first->further.empty()) {
      first->phase = first->further.front();
      first->further = first->further.subspan(1);
      continue;
    }
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
