// Sums ranges over all workers while the worker goes on with its step: what
// every scheme that averages gradients does with its buckets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>

#include "sync/scheme.h"

namespace syncopate {

class Reducer {
 public:
  virtual ~Reducer() = default;

  // What is started from here on is summed over `group`, which holds this
  // worker; at first over all workers. Nothing is in flight. Disjoint groups
  // sum at the same time. parts.collectives: all workers only.
  virtual void over(const Group& group) = 0;

  // Elements [offset, offset + elems) of `range`, which lies in the memory of
  // the context's device, become their sum over the group. They are as the
  // work given to the context's stream so far leaves them, and may not be
  // touched before finish(). `range` must be there as long as the reducer.
  virtual void start(std::string name,
                     std::span<float> range,
                     int64_t offset,
                     int64_t elems,
                     Wire wire,
                     Tag tag) = 0;

  // The same for a range of the model's gradients that is whole tables of
  // embeddings, of which each worker touched few rows: through host memory
  // the rows travel (comm/row_exchange.h), whatever sync.collective is.
  // Libraries between devices sum ranges only: by parts.collectives all of it
  // travels.
  virtual void start_rows(std::string name,
                          std::span<float> range,
                          int64_t offset,
                          int64_t elems,
                          Wire wire,
                          Tag tag) = 0;

  // The step's last range has been started.
  virtual void close() = 0;

  // Work given to the context's stream from here on finds the sums. Returns
  // where the time went: of this step, or, where the host does not wait for
  // the device, of the one before.
  virtual SyncTimes finish() = 0;

  // All sums have been formed at return; the times not yet told.
  virtual SyncTimes quiesce() = 0;
};

// Through host memory and the endpoint, or by parts.collectives where the
// devices can do it themselves.
std::unique_ptr<Reducer> make_reducer(const SchemeParts& parts);

}  // namespace syncopate
