// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/sum_correction.h"

#include <algorithm>

#include "base/check.h"

namespace syncopate::inproc {
namespace {

// When the last sum of each member ends.
std::vector<Time> ends_of(const StepIntervals& step) {
  std::vector<Time> ends(step.front().size(), -kNever);
  for (const std::vector<SumInterval>& sum : step)
    for (size_t i = 0; i < ends.size(); ++i)
      ends[i] = std::max(ends[i], sum[i].end);
  return ends;
}

Time last_end(const StepIntervals& step) {
  return std::ranges::max(ends_of(step));
}

bool end_together(const StepIntervals& step) {
  const auto [first, last] = std::ranges::minmax(ends_of(step));
  return first == last;
}

}  // namespace

void SumCorrection::learn(Time from,
                          const StepIntervals& all,
                          const StepIntervals& few) {
  ++num_steps_;
  all_s_ += last_end(all) - from;
  few_s_ += last_end(few) - from;
  ends_ = ends_of(all);
}

void SumCorrection::apply(Time from, StepIntervals& few) {
  ++num_steps_;
  if (few_s_ <= 0) return;  // messages take no time
  const double factor = all_s_ / few_s_;
  const auto stretch = [&](Time& at) {
    if (at > from) at = from + factor * (at - from);
  };
  for (std::vector<SumInterval>& sum : few)
    for (SumInterval& member : sum) {
      stretch(member.begin);
      stretch(member.end);
    }
  if (!end_together(few)) return;
  const Time later = last_end(few) - std::ranges::max(ends_);
  for (std::vector<SumInterval>& sum : few)
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i].end = std::min(sum[i].end, ends_[i] + later);
      sum[i].begin = std::min(sum[i].begin, sum[i].end);
    }
}

}  // namespace syncopate::inproc
