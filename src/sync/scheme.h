// What happens between workers, at named moments of a step. The training loop
// never asks which scheme it has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "comm/device_collectives.h"
#include "models/model.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace syncopate {

struct SyncOptions {
  std::string scheme = "bsp";
  std::string transport = "auto";   // between GPUs: auto | mpi | nccl
  std::string collective = "ring";  // ring | native
  std::string wire = "fp32";        // fp32 | bf16
  double bucket_mb = 0;             // gradients travel in such ranges; 0: auto
  // [bsp]
  std::string batchnorm = "local";  // running statistics: local | averaged
};

// One worker's model and optimizer, owned, in the memory of its device.
struct Replica {
  Replica(Context& context,
          const Model& model,
          const OptimizerOptions& options);
  DeviceVector<float> parameters, gradients, buffers;
  std::unique_ptr<Optimizer> optimizer;
  ReplicaView view() { return {parameters, gradients, buffers}; }
};

// A range of gradients that became final together.
struct Bucket {
  int index;
  int64_t offset, elems;
  bool is_last;  // of this step
};

struct Plan {
  bool stop = false;
  int64_t step = 0;          // this worker's own count, before the step
  int64_t worker_steps = 0;  // of all workers, before the step
  double rate = 0;           // of the schedule, at worker_steps / N
};

// Where a step's communication time went, on this worker.
struct SyncTimes {
  double exposed_s = 0;     // the worker waited for communication
  double overlapped_s = 0;  // communication that ran under computation
  double wait_s = 0;        // of exposed_s: for others to arrive; NaN: unknown
  double device_s = 0;      // the host waited for its own device's gradients
};

enum class EvalModel : uint8_t { kEach, kAverage, kRank0 };

// What a scheme is built from: its worker's own things.
struct SchemeParts {
  Endpoint& endpoint;
  Context& context;
  Replica& replica;
  const Model& model;
  const SyncOptions& sync;
  const OptimizerOptions& optimizer;
  const Schedule& schedule;
  int64_t stop_at_worker_steps;  // where this run ends
  // Between the devices of the workers; null: through host memory.
  DeviceCollectives* collectives = nullptr;
};

class Scheme {
 public:
  virtual ~Scheme() = default;

  // Before a step: may wait. Plan::stop when the run's work is done.
  virtual Plan next() = 0;
  // During backward, never waits; may start communication.
  virtual void gradient_ready(const Bucket& bucket) = 0;
  // Finish communication, apply the optimizer.
  virtual void update(const Plan& plan) = 0;
  // After the update: average, gossip, ask the state server.
  virtual void end_step(const Plan& plan) = 0;
  // Leave nothing in flight.
  virtual void quiesce() = 0;
  // The model that EvalModel names, written to `parameters` and `buffers`
  // (ranges of the model's shape, of the replica's device). Collective, for a
  // quiesced scheme.
  virtual void evaluation_model(EvalModel which,
                                std::span<float> parameters,
                                std::span<float> buffers) = 0;
  virtual void visit_state(StateVisitor& visitor) = 0;
  virtual int64_t steps_done() const = 0;         // of this worker
  virtual int64_t worker_steps_done() const = 0;  // of all, at a boundary
  virtual SyncTimes take_times() = 0;             // since the last call
};

// `list schemes`, and construction. An explicit table.
struct SchemeInfo {
  std::string keyword;
  std::string description;
  std::unique_ptr<Scheme> (*make)(const SchemeParts&);
};
const std::vector<SchemeInfo>& scheme_table();
std::unique_ptr<Scheme> make_scheme(const SchemeParts& parts);

}  // namespace syncopate
