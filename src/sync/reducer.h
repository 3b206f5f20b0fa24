// Sums ranges over all workers while the worker continues its step: used for
// buckets by every scheme that averages gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/row_table.h"
#include "sync/scheme.h"

namespace syncopate {

// A sum to form: of elements [offset, offset + elems) of a range in the memory
// of the context's device.
struct RangeSum {
  std::string name;        // for the report of a hang
  std::span<float> range;  // outlives the reducer
  int64_t offset = 0, elems = 0;
  Wire wire = Wire::kF32;
  Tag tag = 0;
  // They are whole embedding tables of the model's gradients, of which each
  // worker touched few rows: only rows are sent (comm/row_exchange.h), whatever
  // sync.collective is. On a GPU, nothing may be recorded until finish().
  bool is_tables = false;
  // The touched blocks, if the gradients are tables whose blocks are marked.
  TouchedBlocks touched = {};
};

class Reducer {
 public:
  virtual ~Reducer() = default;

  // Collective over all workers: prepares sums over the groups of a partition
  // of them, given by world ranks.
  virtual void prepare(const std::vector<Ranks>& /*partition*/) {}

  // Sums whatever is started from here on over `group`, which includes this
  // worker; initially over all workers. Nothing may be in flight. Disjoint
  // groups sum concurrently. With parts.collectives: all workers, or a group
  // that was prepared.
  virtual void over(const Group& group) = 0;

  // Replaces the elements by their sum over the group. They are read as left by
  // the work submitted to the context's stream so far, and must not be touched
  // before finish().
  virtual void start(const RangeSum& sum) = 0;

  // Call once the step's last range has been started.
  virtual void close() = 0;

  // Makes work submitted to the context's stream from here on see the sums.
  // Returns where the time went: for this step or, if the host does not wait
  // for the device, for the previous one.
  virtual SyncTimes finish() = 0;

  // All sums are complete on return; returns times not yet reported.
  virtual SyncTimes quiesce() = 0;
};

// Returns the tables that a sum consists of, without marks.
std::vector<RowTable> row_tables_of(const SchemeParts& parts,
                                    const RangeSum& sum);

// Uses host memory and the endpoint, or parts.collectives if the devices can
// communicate themselves.
std::unique_ptr<Reducer> make_reducer(const SchemeParts& parts);

}  // namespace syncopate
