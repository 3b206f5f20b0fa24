// When modelled sums (sum_plan.h) begin and end over links that are alike and
// carry nothing else: message by message, in the order in which messages reach
// the links, which up to ModelledSums::kAtOnce sums share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/inproc/network.h"
#include "comm/inproc/sum_plan.h"
#include "comm/wire.h"

namespace syncopate::inproc {

struct PlannedSum {
  const SumPlan* plan = nullptr;
  Wire wire{};
  std::vector<Time> entered_at;  // by class
};

struct SumInterval {
  Time begin = 0, end = 0;
};

// Returns the intervals of each sum by class. All plans have the same classes.
// A sum begins for a member once the member has entered it and the one kAtOnce
// before has ended.
std::vector<std::vector<SumInterval>> sum_intervals(
    const Network::AlikeLinks& links,
    std::span<const PlannedSum> sums);

}  // namespace syncopate::inproc
