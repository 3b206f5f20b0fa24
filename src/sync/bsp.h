// Bulk-synchronous data parallelism:
//
//   g   = 1/N sum_i g_i                   (all-reduce, bucket by bucket)
//   x_i = optimizer(x_i, g)               the same on every worker
//
// A bucket's all-reduce starts during backward and overlaps with the rest of
// it. All replicas stay bitwise equal. BatchNorm's running statistics stay
// local to each worker (local), or are averaged every step as in DS-Sync's and
// ESync's baselines (averaged). bsp.clip = local clips each worker's gradient
// before the reduction, as in DS-Sync's SQuAD baseline; then nothing is sent
// before backward has ended.
//
// For embedding tables, only rows that some worker touched are sent
// (sync.tables = rows, comm/row_exchange.h), or all rows (dense).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/scheme_base.h"

namespace syncopate {

class Bsp final : public SchemeBase {
 public:
  // `group`: the workers that take steps together, including this one: all of
  // them, or some (elastic switching), which the others follow (Lockstep).
  Bsp(const SchemeParts& parts, Group group);
  explicit Bsp(const SchemeParts& parts)
      : Bsp(parts, parts.endpoint.world_group()) {}
  void gradient_ready(const Bucket& bucket, const StepPlan& plan) override;
  void update(const StepPlan& plan) override;

 private:
  void start(const Bucket& bucket);

  Group group_;
  bool clips_locally_;
  std::vector<Bucket> held_back_;  // until the local gradient is clipped
};

}  // namespace syncopate
