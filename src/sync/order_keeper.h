// asp.record and asp.replay: records the order in which tickets and pushes
// arrive, and holds back early ones to reproduce another run's order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "sync/arrival_order.h"
#include "sync/parameter_shard.h"

namespace syncopate {

class OrderKeeper {
 public:
  // `bound` as for Tickets. Reads the file to replay.
  OrderKeeper(const SchemeParts& parts, int num_shards, int64_t bound);
  OrderKeeper(const OrderKeeper&) = delete;

  // `shard`: the local one, or null. Both must outlive this object's use.
  void attach(Tickets& tickets, ParameterShard* shard);
  // A run begins, which no earlier version of the program has begun.
  void enter() { recorded_.keeps_leads = 1; }
  // Returns the part of a segment until the next recorded boundary, which may
  // be one that a request to stop or save made. Error(kBadInput) if it lies
  // beyond the segment: a push would wait for one that comes only later.
  Segment until_recorded(Segment segment) const;
  void note_boundary(int64_t worker_steps);
  void visit_state(StateVisitor& visitor);
  // Writes what all workers recorded to order.h5. Collective.
  void write();

 private:
  SchemeParts parts_;
  OrderShape shape_;
  // Tickets on rank 0; updates of the local shard only.
  ArrivalOrder recorded_;
  std::shared_ptr<const ArrivalOrder> replayed_;  // of the process
};

// Fails if asp.record or asp.replay is given: "but WHY, expected no, or
// OTHERWISE".
void refuse_order(const AspOptions& asp,
                  const char* why,
                  const char* otherwise);

// SchemeInfo::check of asp and ssp.
void check_server(const SchemeRequest& request, int64_t bound);

}  // namespace syncopate
