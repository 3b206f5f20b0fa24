// Predicts a scheme's traffic before anything runs, as `validate` prints it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sync/scheme.h"

namespace syncopate {

// Inputs and building blocks of a scheme's traffic formula
// (SchemeInfo::planned_bytes).
struct TrafficPlan {
  TrafficPlan(const SchemeRequest& of, int64_t buffer_elems);

  const SchemeRequest& request;
  int64_t buffers;  // elements of BatchNorm's running statistics
  int64_t D;        // elements of the parameters
  int N;            // workers
  Wire wire;        // from sync.wire

  // Returns the bytes that a worker sends in an all-reduce among `group`
  // workers.
  double all_reduce(int group, int64_t elems, Wire format) const;
  // Returns the number of elements sent: the parameters, and the buffers if
  // `batchnorm` says averaged.
  int64_t with_buffers(Statistics batchnorm) const;
  double message() const;     // bytes of a compressed message
  double neighbours() const;  // of a worker, on average
  double value_bytes() const { return wire == Wire::kBf16 ? 2 : 4; }
  bool has_tables() const;  // has embedding tables
};

// Returns the payload bytes that a worker sends per step, averaged over the
// workers and over a long run; `buffer_elems` are BatchNorm's running
// statistics. nullopt if it depends on the course of the run: esync's rounds,
// sync_switch's phases, local_sgd.start, dgc.warmup_ratios, and the rows of
// embedding tables that bsp's batches touch (at most what dense tables send,
// plus the counts of rows).
std::optional<double> planned_bytes(const SchemeRequest& request,
                                    int64_t buffer_elems);

}  // namespace syncopate
