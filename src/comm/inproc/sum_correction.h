// Corrects the times of concurrent sums of which a few members are followed. A
// step of sums by pairs waits for the last of many paths of messages, of which
// those members have fewer: followed alone, it ends too early, by 1 to 5%. A
// step of rings, of which one member is followed, ends up to 2% too late. In
// the first steps and one of kPeriod all members are followed as well; how much
// later or earlier those steps end together stretches the others. (A single
// step ends by up to 5% later or earlier.) Members that end together, as those
// of rings, then end as far apart as in the last step of which all were
// followed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comm/inproc/sum_intervals.h"

namespace syncopate::inproc {

// Of the sums of one step, by sum and member.
using StepIntervals = std::vector<std::vector<SumInterval>>;

class SumCorrection {
 public:
  static constexpr int64_t kFirst = 4, kPeriod = 6;

  // Whether all members are to be followed in the next step.
  bool is_due() const {
    return num_steps_ < kFirst || num_steps_ % kPeriod == 0;
  }
  // Compares both ways of following a step. `from`: when its last member
  // entered the first sum, before which nothing ends.
  void learn(Time from, const StepIntervals& all, const StepIntervals& few);
  // Corrects a step after `from`. Requires an earlier learn().
  void apply(Time from, StepIntervals& few);

 private:
  int64_t num_steps_ = 0;
  Time all_s_ = 0, few_s_ = 0;  // until the last end, in the steps compared
  std::vector<Time> ends_;      // of the members in the last of these
};

}  // namespace syncopate::inproc
