// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/inproc_sums.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "comm/inproc/ring_ends.h"
#include "comm/ring.h"

namespace syncopate::inproc {
namespace {

constexpr int kRingClasses = 4;

int64_t messages_sent(CollectiveAlgorithm algorithm,
                      int group_size,
                      int position,
                      int64_t elems) {
  if (!is_by_pairs(algorithm))
    return 2 * RingLayout(group_size, elems).messages();
  int64_t messages = 0;
  for (const ExchangeStep& step :
       exchange_steps(algorithm, group_size, position, elems))
    messages += num_segments(step.out.elems);
  return messages;
}

// Adds an interval that begins no earlier than those before it.
void append(std::vector<std::pair<Time, Time>>& intervals,
            Time begin,
            Time end) {
  if (!intervals.empty() && begin <= intervals.back().second)
    intervals.back().second = std::max(intervals.back().second, end);
  else
    intervals.emplace_back(begin, end);
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
  return alike_ && is_by_pairs(algorithm);
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
  ++link.num_incomplete;
  GroupSums& sums = *link.group;
  const int64_t index = sums.num_entered[group.position]++ - sums.num_complete;
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
  Open complete = std::move(sum);
  sums.open.pop_front();
  ++sums.num_complete;
  const Time last_entered_at = std::ranges::max(complete.entered_at);
  for (const int rank : group.members) {
    Link& member = links_[rank];
    member.last_entered_at = std::max(member.last_entered_at, last_entered_at);
    if (--member.num_incomplete == 0 && member.waiting != nullptr)
      scheduler_.wake(*member.waiting, last_entered_at);
  }
  sums.unsolved.push_back(std::move(complete));
}

InprocSums::Cost& InprocSums::cost_of(const Shape& shape) {
  const auto [found, is_new] = costs_.try_emplace(shape);
  Cost& cost = found->second;
  if (!is_new) return cost;
  const auto& [n, elems, algorithm, wire] = shape;
  for (int p = 0; p < n; ++p) {
    cost.sent.push_back({all_reduce_bytes(algorithm, n, p, elems, wire),
                         messages_sent(algorithm, n, p, elems)});
    cost.messages += cost.sent.back().messages;
  }
  return cost;
}

InprocSums::Following InprocSums::following(std::span<const Open> sums) const {
  const auto& [n, elems, algorithm, wire] = sums.front().shape;
  int64_t messages = 0;
  for (const Open& sum : sums) messages += sum.cost->messages;
  const int64_t groups = std::ssize(links_) / n;  // others send as much
  messages *= groups;
  const auto workers = std::ssize(links_);
  const bool is_rough = network_.sums() == NetworkCost::Sums::kRough;
  if (!is_by_pairs(algorithm)) {
    if (workers <= kExactWorld || messages <= kMostRingMessages) return {};
    if (!is_rough && messages <= kMostMessages) return {kRingClasses, true};
    return {.classes = kRingClasses, .error = 0.03};  // 2.2% seen
  }
  const int64_t most = is_rough ? kMostRoughMessages : kMostMessages;
  if (workers <= kExactWorld || messages <= most) return {};
  // Of the group's part of the world's.
  const auto classes_of = [groups](int64_t world) {
    return std::max(4, static_cast<int>(std::bit_floor(
                           static_cast<uint64_t>(world / groups))));
  };
  if (!is_rough && messages <= kMostCorrected)
    return {classes_of(kCorrected), true};
  const int64_t fewest = is_rough                  ? kFewestRough
                         : workers <= kManyWorkers ? kFewestClasses
                                                   : kFewestOfMany;
  // About half of those that are followed are folded or of smaller blocks.
  const int64_t affordable = most / (2 * messages / workers);
  const double error = !is_rough && workers <= kManyWorkers ? 0.04 : 0.1;
  return {classes_of(std::max(fewest, affordable)), false, error};
}

// By sum and position.
StepIntervals InprocSums::intervals_of(std::span<const Open> sums,
                                       Ranks members) {
  const auto n = std::ssize(members);
  const Open& first = sums.front();
  if (sums.size() == 1 && !is_by_pairs(first.shape.algorithm)) {
    std::vector<Time> begin(n);
    for (int p = 0; p < n; ++p)
      begin[p] = std::max(first.entered_at[p], network_.out_free(members[p]));
    const bool is_small = std::ssize(links_) <= kExactWorld;
    const RingLayout layout(static_cast<int>(n), first.shape.elems);
    // All chunks of a round are taken to be as long as the longest.
    if (!is_small && layout.segments() == 1 && first.shape.elems > 0)
      error_ = std::max(error_, static_cast<double>(layout.longest() * n) /
                                        static_cast<double>(first.shape.elems) -
                                    1);
    const std::vector<Time> ends = ring_ends(*alike_, first.shape.elems,
                                             first.shape.wire, is_small, begin);
    StepIntervals intervals(1);
    for (int p = 0; p < n; ++p) intervals[0].push_back({begin[p], ends[p]});
    return intervals;
  }
  const auto [classes, is_corrected, error] = following(sums);
  error_ = std::max(error_, error);
  StepIntervals intervals = followed(sums, members, classes);
  if (!is_corrected) return intervals;
  const Time from = std::ranges::max(first.entered_at);
  SumCorrection& correction = corrections_[{first.shape, sums.size()}];
  if (!correction.is_due()) {
    correction.apply(from, intervals);
    return intervals;
  }
  StepIntervals all = followed(sums, members, SumPlan::kEveryMember);
  correction.learn(from, all, intervals);
  return all;
}

StepIntervals InprocSums::followed(std::span<const Open> sums,
                                   Ranks members,
                                   int classes) const {
  const auto n = std::ssize(members);
  std::vector<PlannedSum> planned;
  for (const Open& sum : sums) {
    const Shape& shape = sum.shape;
    std::map<int, SumPlan>& plans = sum.cost->plans;
    if (!plans.contains(classes))
      plans.emplace(classes, SumPlan::make(shape.algorithm, shape.num_members,
                                           shape.elems, classes));
    const SumPlan& plan = plans.at(classes);
    std::vector<Time> entered_at(n);
    for (int p = 0; p < n; ++p)
      entered_at[p] =
          std::max(sum.entered_at[p], network_.out_free(members[p]));
    planned.push_back({&plan, shape.wire, plan.entered_at(entered_at)});
  }
  const StepIntervals by_class = sum_intervals(*alike_, planned);
  StepIntervals by_position(sums.size(), std::vector<SumInterval>(n));
  for (size_t i = 0; i < sums.size(); ++i)
    for (int p = 0; p < n; ++p)
      by_position[i][p] = by_class[i][planned[i].plan->class_of(p)];
  return by_position;
}

void InprocSums::solve(std::span<const Open> sums, Ranks members) {
  const StepIntervals intervals = intervals_of(sums, members);
  for (int p = 0; p < std::ssize(members); ++p) {
    Link& link = links_[members[p]];
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto& [begin, end] = intervals[i][p];
      // It waits for itself, and not for its class.
      const Time entered = sums[i].entered_at[p];
      append(link.intervals, i < kAtOnce ? entered : std::max(begin, entered),
             end);
    }
    network_.out_free(members[p]) =
        link.intervals.back().second - alike_->latency_s;
  }
}

ModelledSums::Times InprocSums::finish() {
  scheduler_.check_alive();
  Strand& self = scheduler_.current();
  Link& link = links_[self.rank];
  while (link.num_incomplete > 0) {
    link.waiting = &self;
    scheduler_.block([&link] {
      const auto& num_entered = link.group->num_entered;
      const auto behind =
          std::ranges::find(num_entered, link.group->num_complete);
      const int rank = link.members[behind - num_entered.begin()];
      return Awaited{fmt::format("worker {} in an all-reduce of {} workers",
                                 rank, link.members.size()),
                     rank};
    });
  }
  link.waiting = nullptr;
  if (link.group != nullptr && !link.group->unsolved.empty())
    solve(std::exchange(link.group->unsolved, {}), link.members);
  if (link.is_finished) link.intervals.clear();
  link.is_finished = true;
  Time last = self.time;
  for (const auto& [begin, end] : link.intervals) last = std::max(last, end);
  scheduler_.sleep_until(last);
  return {link.intervals, std::exchange(link.last_entered_at, 0)};
}

}  // namespace syncopate::inproc
