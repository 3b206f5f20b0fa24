// asp.record and asp.replay: notes in which order tickets and pushes arrive,
// and holds early ones back where another run's order is to be kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "sync/arrival_order.h"
#include "sync/parameter_shard.h"

namespace syncopate {

class OrderKeeper {
 public:
  // `bound` as for Tickets. Reads the file to be replayed.
  OrderKeeper(const SchemeParts& parts, int num_shards, int64_t bound);
  OrderKeeper(const OrderKeeper&) = delete;

  // `shard`: the own one, or null. Both are as long as this.
  void attach(Tickets& tickets, ParameterShard* shard);
  // A segment that ends elsewhere than a recorded one is Error(kBadInput): a
  // push would wait for one that comes after the boundary.
  void check_boundary(const Segment& segment) const;
  void note_boundary(int64_t worker_steps);
  void visit_state(StateVisitor& visitor);
  // What was recorded, by all workers, to order.h5. Collective.
  void write();

 private:
  SchemeParts parts_;
  OrderShape shape_;
  // Tickets on rank 0; updates of the own shard alone.
  ArrivalOrder recorded_;
  std::optional<ArrivalOrder> replayed_;
};

// Of asp and ssp.
std::string server_obstacle(const SchemeRequest& request, int64_t bound);

}  // namespace syncopate
