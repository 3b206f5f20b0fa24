// What happens between workers, at named moments of a step. The training loop
// never asks which scheme it has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "comm/device_collectives.h"
#include "models/model.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "sync/options.h"
#include "sync/pace.h"

namespace syncopate {

struct Key;
struct TrafficPlan;

// One worker's model and optimizer, owned, in the memory of its device.
struct Replica {
  Replica(Context& context,
          const Model& model,
          const OptimizerOptions& options);
  DeviceVector<float> parameters, gradients, buffers;
  // Of the whole range; null while a scheme keeps the optimizer elsewhere.
  std::unique_ptr<Optimizer> optimizer;
  ReplicaView view() { return {parameters, gradients, buffers}; }
};

// A range of gradients that became final together.
struct Bucket {
  int index;
  int64_t offset, elems;
  bool is_last;           // of this step
  bool is_table = false;  // whole tables of embeddings, and nothing else
};

struct Plan {
  bool stop = false;         // no step for this worker before the boundary
  bool is_idle = false;      // others take this step: next() again, no step
  int64_t step = 0;          // this worker's own count, before the step
  int64_t worker_steps = 0;  // of all workers, before the step
  double rate = 0;           // of the schedule, at worker_steps / N
  double momentum = 0;
};

// Where a step's communication time went, on this worker.
struct SyncTimes {
  double exposed_s = 0;     // the worker waited for communication
  double overlapped_s = 0;  // communication that ran under computation
  double wait_s = 0;        // of exposed_s: for others to arrive; NaN: unknown
  double device_s = 0;      // the host waited for its own device's gradients
  void add(const SyncTimes& other);
};

// kCentre: easgd's, with the mean of the workers' buffers.
enum class EvalModel : uint8_t { kEach, kAverage, kRank0, kCentre };

// A series of the scheme's own in /sync of results.h5.
struct SeriesInfo {
  // How the workers' values become a row: a column a worker, or combined.
  enum class Over : uint8_t { kWorkers, kSum, kMean, kMax };
  std::string name, unit, description;
  Over over = Over::kWorkers;
  int64_t width = 1;  // values of a worker: more than 1 for a histogram
};

// Of sync_switch: what a phase runs by, sync.scheme its own.
struct Phase {
  SyncOptions sync;
  OptimizerOptions optimizer;
  Schedule schedule;
};

// What a scheme is built from: its worker's own things.
struct SchemeParts {
  Endpoint& endpoint;
  Context& context;
  Replica& replica;
  const Model& model;
  const SyncOptions& sync;
  const OptimizerOptions& optimizer;
  const Schedule& schedule;  // of this worker
  uint64_t seed = 1;
  int64_t total_steps = 0;     // of the run: worker_steps / N
  double steps_per_epoch = 1;  // likewise
  // This worker's samples of a step, over the mean of all workers'.
  double batch_weight = 1;
  // Between the devices of the workers; null: through host memory.
  DeviceCollectives* collectives = nullptr;
  std::string directory = {};          // of the run: where asp.record writes
  std::span<const Phase> phases = {};  // sync_switch; as long as the scheme
};

// Calls come in this order, from every worker alike:
//
//   enter                    replicas hold the first model (or a checkpoint's)
//   begin                    a segment of work, up to the next boundary
//     next                   ... of which this worker takes a step
//     gradient_ready *
//     update
//     end_step
//     next -> stop           ... until there is none left
//   quiesce
//   evaluation_model, visit_state *
//   begin ...
//   leave                    another scheme goes on
class Scheme {
 public:
  virtual ~Scheme() = default;

  // Takes over from replicas that are equal on all workers, parameters,
  // buffers and optimizer. Not called on resume: visit_state restores.
  virtual void enter() {}
  virtual void begin(const Segment& segment) = 0;
  // May wait: for a stale bound, a pull, an average before forward.
  virtual Plan next(const Word& mine) = 0;
  // During backward, never waits; may start communication.
  virtual void gradient_ready(const Bucket&) {}
  // In virtual time, between two buckets: true ends the step at once, and
  // update() throws its gradient away.
  virtual bool abandons_step() { return false; }
  // Finish communication, apply the optimizer.
  virtual void update(const Plan& plan) = 0;
  // After the update: average, gossip, ask the state server.
  virtual void end_step(const Plan&) {}
  // Leave nothing in flight; services end. Every worker has got `stop`.
  virtual void quiesce() = 0;
  // Quiesced: the replicas become the one model, optimizer and statistics that
  // another scheme starts from, equal on all workers. Collective.
  virtual void leave() = 0;
  // At the end of the run's last segment, quiesced: what the published form
  // does to the final model. Collective.
  virtual void finish() {}

  // The model that EvalModel names, written to `parameters` and `buffers`
  // (ranges of the model's shape, of the replica's device). Collective, for a
  // quiesced scheme.
  virtual void evaluation_model(EvalModel which,
                                std::span<float> parameters,
                                std::span<float> buffers) = 0;
  // What an evaluation at this boundary says, the same on every worker: the
  // loss (lower is better) and the metric (higher is better).
  virtual void evaluated(double /*loss*/, double /*metric*/) {}
  // The worker's clock stands where its last step ended.
  virtual void visit_state(StateVisitor& visitor) = 0;
  virtual int64_t steps_done() const = 0;  // of this worker
  // As Pace: steps until a stop that was asked for takes effect.
  virtual int64_t stop_lag() const = 0;
  virtual SyncTimes take_times() = 0;  // since the last call

  virtual std::vector<SeriesInfo> series() const { return {}; }
  // This worker's values since the last call, in the order of series().
  virtual std::vector<double> take_series() { return {}; }
  // Lines for the log since the last call, the same on every worker.
  virtual std::vector<std::string> take_notes() { return {}; }
};

// What decides whether a scheme can run, known before anything starts.
struct SchemeRequest {
  const SyncOptions& sync;
  const OptimizerOptions& optimizer;
  const ParameterTable& parameters;
  int workers;
  int64_t total_steps;  // of the run: worker_steps / N
};

// `list schemes`, construction and checks. An explicit table; being in it
// enrols a scheme in every contract test.
struct SchemeInfo {
  std::string keyword;
  std::string description;
  std::unique_ptr<Scheme> (*make)(const SchemeParts&);
  // What is wrong, "KEY: WHAT, expected WHAT"; empty: nothing.
  std::string (*obstacle)(const SchemeRequest&) = nullptr;
  // Of SyncOptions: those that the scheme reads beside [sync], [compress] and
  // [topology]. Schemes may list the same key.
  std::vector<Key> (*keys)() = nullptr;
  // As planned_bytes() (sync/planned_bytes.h), of two workers or more; null: it
  // depends on how the run goes.
  std::optional<double> (*planned_bytes)(const TrafficPlan&) = nullptr;
  // Its phases are other schemes (schemes_in_use), whose properties count.
  bool is_composite = false;
  bool uses_topology = false, uses_compressor = false;
  bool uses_wire = false;       // sync.wire: what it sends uncompressed
  bool reduces_ranges = false;  // in buckets, by sync.collective
  bool sends_rows = false;      // sync.tables: those of tables that are touched
  bool has_centre = false;      // EvalModel::kCentre
  bool uses_collectives = false;  // parts.collectives, where there are some
  // All workers hold the same parameters whenever it is quiesced.
  bool keeps_replicas_equal = false;
  // Workers take steps at their own speed, not all alike.
  bool is_free_running = false;
  // Gradients of all workers are averaged by samples: each worker's is divided
  // by the mean batch of all.
  bool averages_gradients = false;
};
const std::vector<SchemeInfo>& scheme_table();
const SchemeInfo& scheme_info(const std::string& keyword);
std::vector<Key> sync_keys();  // of SyncOptions, of all schemes
std::unique_ptr<Scheme> make_scheme(const SchemeParts& parts);
// The first obstacle, or "". Also for topologies and compressors.
std::string scheme_obstacle(const SchemeRequest& request);
// sync.scheme, and under a composite scheme those of its phases.
// (A phase may be written 1 for bsp and 0 for asp.)
std::vector<std::string> phase_schemes(const SyncSwitchOptions& options);
std::vector<std::string> schemes_in_use(const SyncOptions& sync);

}  // namespace syncopate
