// A synchronization scheme: the communication between workers, called at fixed
// points of a training step. The training loop does not depend on the scheme.
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
#include "models/gradient_values.h"
#include "models/model.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "sync/options.h"
#include "sync/pace.h"

namespace syncopate {

struct Key;
struct TrafficPlan;
class MovingAverage;
class SharedSums;

// One worker's model and optimizer, owned, in the memory of its device.
struct Replica {
  Replica(Context& context,
          const Model& model,
          const OptimizerOptions& options,
          const ShadowTable* copies = nullptr);  // the model's
  ParameterValues parameters;
  GradientValues gradients;
  DeviceVector<float> buffers;
  // For the whole range; null while a scheme keeps the optimizer elsewhere.
  std::unique_ptr<Optimizer> optimizer;
  // Of this worker's model over its steps (eval.model = ema); null: none.
  MovingAverage* average = nullptr;
  ReplicaView view() {
    return {parameters, gradients.marked(), buffers, &parameters.shadow(),
            gradients.marks()};
  }
};

// A range of gradients that became final together.
struct Bucket {
  int index;
  int64_t offset, elems;
  bool is_last;           // in this step
  bool is_table = false;  // consists of whole embedding tables
  // Of the run of consecutive tables, or of dense tensors, that contains this
  // bucket.
  int64_t stretch_offset = 0, stretch_elems = 0;
};

struct StepPlan {
  bool stop = false;         // no step for this worker before the boundary
  bool is_idle = false;      // others take this step: no step, call next()
                             // again
  int64_t step = 0;          // this worker's own count, before the step
  int64_t worker_steps = 0;  // of all workers, before the step
  double rate = 0;           // from the schedule, at worker_steps / N
  double momentum = 0;
};

// The parts of a step's communication time on this worker.
struct SyncTimes {
  double exposed_s = 0;     // blocked on communication
  double overlapped_s = 0;  // communication that overlapped computation
  double wait_s = 0;        // of exposed_s, waiting for peers; NaN: unknown
  double device_s = 0;      // waiting for its own device's gradients
  void add(const SyncTimes& other) {
    exposed_s += other.exposed_s;
    overlapped_s += other.overlapped_s;
    wait_s += other.wait_s;
    device_s += other.device_s;
  }
};

// Returns the time since a worker entered a wait for messages, and records it
// in a trace as a wait for `what`. Until `has_own_at`, a GPU was still
// computing what was to be sent: device_s.
SyncTimes blocked_since(Time entered,
                        Time has_own_at,
                        Context& context,
                        const Endpoint& endpoint,
                        const char* what);

// Returns the time since `entered` as one of waiting for peers, and records it
// in a trace as a wait for `what`.
SyncTimes waited_since(Time entered,
                       const Endpoint& endpoint,
                       const char* what);

// kCentre: easgd's centre, with the mean of the workers' buffers.
enum class EvalModel : uint8_t { kEach, kAverage, kRank0, kCentre };

// A scheme's own series in /sync of results.h5.
struct SeriesInfo {
  // How the workers' values form a row: one column per worker, or combined.
  enum class Over : uint8_t { kWorkers, kSum, kMean, kMax };
  std::string name, unit, description;
  Over over = Over::kWorkers;
  int64_t width = 1;  // values per worker: more than 1 for a histogram
};

// sync_switch: the options of a phase, with its own sync.scheme.
struct Phase {
  SyncOptions sync;
  OptimizerOptions optimizer;
  Schedule schedule;
};

// The parts from which a scheme is built, all belonging to its worker.
// In virtual time: the computations that follow a step's backward pass. They
// take their time after Scheme::update(), unless the scheme has let them take
// it earlier, before a message that waits for them, or on parameter servers.
struct UpdateTime {
  double seconds = 0;           // compute.update_s
  std::function<void()> spend;  // at this worker's speed
  bool is_spent = false;        // in this step
};

struct SchemeParts {
  Endpoint& endpoint;
  Context& context;
  Replica& replica;
  const Model& model;
  const SyncOptions& sync;
  const OptimizerOptions& optimizer;
  const Schedule& schedule;  // of this worker
  uint64_t seed = 1;
  int64_t total_steps = 0;       // of the run: worker_steps / N
  int64_t began_at = 0;          // worker_steps before the scheme's first step
  double steps_per_epoch = 1;    // likewise
  int64_t batches_per_step = 1;  // whose gradients a worker accumulates
  // By rank: samples per step, relative to their mean. Empty: alike. Outlives
  // the scheme.
  std::span<const double> batch_weights = {};
  double mean_weight = 1;  // of the workers whose gradients are averaged
  // Between the workers' devices; null: through host memory.
  DeviceCollectives* collectives = nullptr;
  // In virtual time, on the device that all workers share; null: through host
  // memory.
  SharedSums* shared_sums = nullptr;
  SharedStop* shared_stop = nullptr;   // of workers of one process; else null
  UpdateTime* update_time = nullptr;   // in virtual time; else null
  std::string directory = {};          // of the run: asp.record writes there
  std::span<const Phase> phases = {};  // sync_switch; outlives the scheme

  // This worker's samples per step, relative to those averaged.
  double batch_weight() const {
    return batch_weights.empty() ? 1
                                 : batch_weights[endpoint.rank()] / mean_weight;
  }
};

enum class RunEnd : uint8_t { kLastStep, kTarget };

// Calls come in this order, identically on every worker:
//
//   enter                    replicas hold the initial model (or a checkpoint)
//   begin                    a segment of work, up to the next boundary
//     resume
//     next                   ... of which this worker takes a step
//     begin_step
//     gradient_ready *
//     update
//     end_step
//     next -> stop           ... until there is none left
//   quiesce
//   gather
//   evaluation_model, visit_state *
//   begin ...
//   leave                    another scheme takes over
class Scheme {
 public:
  virtual ~Scheme() = default;

  // Takes over replicas that are equal on all workers, including parameters,
  // buffers and optimizer. Not called on resume: visit_state restores.
  virtual void enter() {}
  virtual void begin(const Segment& segment) = 0;
  // Completes what the last boundary interrupted, and may block for it. Returns
  // true if it has: its time then belongs to the worker's last step.
  virtual bool resume() { return false; }
  // May block: on a stale bound or a pull.
  virtual StepPlan next(const StepRequest& mine) = 0;
  // Runs before forward, once what was recorded of earlier steps is closed:
  // averages.
  virtual void begin_step(const StepPlan&) {}
  // Called during backward, with the plan that update() gets; never blocks, may
  // start communication.
  virtual void gradient_ready(const Bucket&, const StepPlan&) {}
  // Called between two buckets in virtual time, otherwise once, after backward:
  // true ends the step, and update() discards its gradient.
  virtual bool abandons_step() { return false; }
  // Finishes communication and applies the optimizer.
  virtual void update(const StepPlan& plan) = 0;
  // Runs after the update: averages, gossips, asks the state server.
  virtual void end_step(const StepPlan&) {}
  // Whether the step's parameters are still to be received or averaged; they
  // are there when next() or, after a boundary, resume() returns.
  virtual bool is_pulling() const { return false; }
  // Leaves nothing in flight and ends services. Every worker has got `stop`.
  virtual void quiesce() = 0;
  // Quiesced: brings the parts of the model that other workers hold into the
  // replica. Not training, so it takes no time of a row. Collective.
  virtual void gather() {}
  // Quiesced: merges the replicas into the one model, optimizer and statistics
  // from which another scheme starts, equal on all workers. `rate` is that of a
  // step now. Collective.
  virtual void leave(double rate) = 0;
  // At the end of the run's last segment, gathered: after the last step,
  // applies what the published form does to the final model. A run that ended
  // at its target may go on, so its model stays as it is. Collective.
  virtual void finish(RunEnd) {}

  // Writes the model that EvalModel names to `parameters` and `buffers` (ranges
  // of the model's shape, on the replica's device). Collective; requires a
  // gathered scheme.
  virtual void evaluation_model(EvalModel which,
                                std::span<float> parameters,
                                std::span<float> buffers) = 0;
  // Receives the results of an evaluation at this boundary, the same on every
  // worker: loss (lower is better) and metric (higher is better).
  virtual void evaluated(double /*loss*/, double /*metric*/) {}
  // Here the worker's clock is at the end of its last step.
  virtual void visit_state(StateVisitor& visitor) = 0;
  virtual int64_t steps_done() const = 0;  // of this worker
  // What this worker keeps outside its device's memory, as a parameter server
  // does. Known in simulations only.
  virtual int64_t server_bytes() const { return 0; }
  // The options by which the current steps are applied.
  virtual const OptimizerOptions& optimizer_options() const = 0;
  // As in Pace: steps until a requested stop takes effect.
  virtual int64_t stop_lag() const = 0;
  virtual SyncTimes take_times() = 0;  // since the last call

  virtual std::vector<SeriesInfo> series() const { return {}; }
  // Returns this worker's values since the last call, in the order of series().
  virtual std::vector<double> take_series() { return {}; }
  // Returns log lines since the last call, the same on every worker.
  virtual std::vector<std::string> take_notes() { return {}; }
};

// Determines whether a scheme can run, before anything starts.
struct SchemeRequest {
  const SyncOptions& sync;
  const OptimizerOptions& optimizer;
  const ParameterTable& parameters;
  int workers;
  int64_t total_steps;             // of the run: worker_steps / N
  double steps_per_epoch = 0;      // 0: not known yet
  bool has_servers_apart = false;  // network.servers
};

// A scheme's own default of a key, which it takes if neither that key nor one
// of `unless` is given.
struct SchemeDefault {
  std::string key, value;
  std::vector<std::string> unless = {};
};

// For `list schemes`, construction and checks. An explicit table; its entries
// are covered by every contract test.
struct SchemeInfo {
  std::string keyword;
  std::string description;
  std::unique_ptr<Scheme> (*make)(const SchemeParts&);
  // Throws Error(kBadInput), "KEY: WHAT, expected WHAT", if it cannot run.
  void (*check)(const SchemeRequest&) = nullptr;
  // Returns what has no effect in this run although it can run; "": nothing.
  std::string (*note)(const SchemeRequest&) = nullptr;
  // Returns the keys of SyncOptions that the scheme reads in addition to
  // [sync], [compress] and [topology]. Schemes may share a key.
  std::vector<Key> (*keys)() = nullptr;
  // With these, sync.scheme = NAME is all that an input needs.
  std::vector<SchemeDefault> defaults = {};
  // As planned_bytes() (sync/planned_bytes.h), for two workers or more; null:
  // it depends on the course of the run.
  std::optional<double> (*planned_bytes)(const TrafficPlan&) = nullptr;
  // Its phases run other schemes (schemes_in_use), whose properties count.
  bool is_composite = false;
  bool uses_topology = false, uses_compressor = false;
  bool uses_wire = false;         // sync.wire, for uncompressed messages
  bool reduces_ranges = false;    // in buckets, by sync.collective
  bool sums_in_groups = false;    // that change from one step to the next
  bool sends_rows = false;        // sync.tables: only touched rows
  bool has_centre = false;        // EvalModel::kCentre
  bool uses_collectives = false;  // parts.collectives, if present
  // The model that is evaluated and saved at a boundary is the same on all
  // workers.
  bool keeps_replicas_equal = false;
  // Workers take steps at their own speed rather than together.
  bool is_free_running = false;
  // Each worker exchanges messages with all others in each step, other than
  // rows of tables; asp and ssp with each server.
  bool sends_to_all = false;
  bool has_servers = false;  // of parameters or of its workers' state
  // Returns the local steps between two rounds of communication; null: 1.
  int64_t (*steps_of_round)(const SyncOptions&) = nullptr;
  // Gradients of all workers are averaged by samples: each worker's is divided
  // by the mean batch size of all.
  bool averages_gradients = false;
  // Diverges under compression that others bear: advise recommends it only if
  // no other scheme is fast enough.
  bool is_fragile = false;
};
const std::vector<SchemeInfo>& scheme_table();
const SchemeInfo& scheme_info(const std::string& keyword);
std::vector<Key> sync_keys();  // SyncOptions, for all schemes
std::unique_ptr<Scheme> make_scheme(const SchemeParts& parts);
// Returns the first obstacle, or "". Also checks topologies and compressors.
// The phases of a composite scheme have requests of their own.
std::string scheme_obstacle(const SchemeRequest& request);
// Returns those of the scheme's own defaults that hold where `is_set` are the
// keys that are given.
std::vector<SchemeDefault> own_defaults(
    const std::string& scheme,
    const std::function<bool(const std::string&)>& is_set);
// Returns sync.scheme and, under a composite scheme, those of its phases. (A
// phase may be written 1 for bsp and 0 for asp.)
std::vector<std::string> phase_schemes(const SyncSwitchOptions& options);
std::vector<std::string> schemes_in_use(const SyncOptions& sync);
bool any_scheme(const SyncOptions& sync, bool (*is_so)(const SchemeInfo&));
bool uses_servers(const SyncOptions& sync);  // also those of a collective
int64_t steps_of_round(const SyncOptions& sync);

}  // namespace syncopate
