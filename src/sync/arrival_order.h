// The order in which messages of an asynchronous run arrived: recorded at the
// end of one run and imposed on another, which then yields the same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/state_visitor.h"

namespace syncopate {

struct ArrivalOrder {
  std::vector<int64_t> tickets;               // the rank that got each step
  std::vector<std::vector<int64_t>> updates;  // by shard: whose pushes, applied
  std::vector<int64_t> boundaries;            // worker_steps, ascending
  // 1: a bound has counted leads across all boundaries; 0: an earlier version
  // of the program has recorded some of it, which forgot them at each.
  int64_t keeps_leads = 0;
};

// Determines whether an order fits a run.
struct OrderShape {
  int64_t workers, shards;
  int64_t worker_steps;  // planned: a run that reaches run.target takes fewer
  int64_t bound;         // ssp.bound, or Tickets::kNoBound
};

// Writes what a run recorded until its last boundary.
void write_order(const std::string& path,
                 const ArrivalOrder& order,
                 const OrderShape& shape);

// Throws a one-line Error(kBadInput), naming path and expectation, for a file
// of another shape or one that no run can have written.
ArrivalOrder read_order(const std::string& path, const OrderShape& expected);

// Visits a list that has not reached its final length: it is stored at
// `full_length`, which is known when loading.
void visit_growing(StateVisitor& visitor,
                   const std::string& name,
                   std::vector<int64_t>& values,
                   int64_t full_length);

}  // namespace syncopate
