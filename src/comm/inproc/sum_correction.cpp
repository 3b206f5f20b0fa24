// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/sum_correction.h"

#include <algorithm>

#include "base/check.h"

namespace syncopate::inproc {
namespace {

Time last_end(const StepIntervals& step) {
  Time last = -kNever;
  for (const std::vector<SumInterval>& sum : step)
    for (const SumInterval& member : sum) last = std::max(last, member.end);
  return last;
}

}  // namespace

void SumCorrection::learn(Time from,
                          const StepIntervals& all,
                          const StepIntervals& few) {
  ++num_steps_;
  all_s_ += last_end(all) - from;
  few_s_ += last_end(few) - from;
}

void SumCorrection::apply(Time from, StepIntervals& few) {
  ++num_steps_;
  CHECK(few_s_ > 0);
  const double factor = all_s_ / few_s_;
  const auto stretch = [&](Time& at) {
    if (at > from) at = from + factor * (at - from);
  };
  for (std::vector<SumInterval>& sum : few)
    for (SumInterval& member : sum) {
      stretch(member.begin);
      stretch(member.end);
    }
}

}  // namespace syncopate::inproc
