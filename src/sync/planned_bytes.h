// Predicts a scheme's traffic before anything runs, as `validate` prints it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sync/scheme.h"

namespace syncopate {

// What a scheme's formula is made of (SchemeInfo::planned_bytes).
struct TrafficPlan {
  TrafficPlan(const SchemeRequest& of, int64_t buffer_elems);

  const SchemeRequest& request;
  int64_t buffers;  // elements of BatchNorm's running statistics
  int64_t D;        // elements of the parameters
  int N;            // workers
  Wire wire;        // of sync.wire

  // Bytes that a worker sends in an all-reduce among `group` workers.
  double all_reduce(int group, int64_t elems, Wire format) const;
  // Elements that travel: buffers too where the key says averaged.
  int64_t with_buffers(const std::string& batchnorm) const;
  double message() const;     // bytes of a compressed one
  double neighbours() const;  // of a worker, the mean
  double value_bytes() const { return wire == Wire::kBf16 ? 2 : 4; }
  bool has_tables() const;  // of embeddings
};

// Payload bytes that a worker sends in a step, the mean over the workers and
// over a long run; `buffer_elems` are BatchNorm's running statistics. nullopt
// where it depends on how the run goes: esync's rounds, sync_switch's phases,
// local_sgd.start, the rows that bsp's batches touch of tables of embeddings
// (at most what dense tables send, and the counts of rows); of dgc after its
// warm-up.
std::optional<double> planned_bytes(const SchemeRequest& request,
                                    int64_t buffer_elems);

}  // namespace syncopate
