// A slice of the parameters and its optimizer, in host memory, to which all
// workers push gradients and from which they pull values: the building block of
// a parameter server.
//
// For a push by worker i, with the rate and momentum of its step:
//
//   g <- g + lambda g * g * (x - b)      asp.compensation
//   x <- optimizer(x, g)                 one momentum, shared by all workers
//   answer x                             at once, or within `bound` (ssp.cpp)
//
// b is what worker i last pulled (per_worker: Zheng et al. 2017, DC-ASGD,
// algorithm 2), or x before the last update, whoever made it (per_key: MXNet's
// DCASGD).
//
// With asp.batchnorm = shared or averaged, also a slice of BatchNorm's running
// statistics. Worker i's forward pass turned the statistics p of its last pull
// into u = d p + (1 - d) times those of its batch, where d = 0.9 (for k
// accumulated batches, 0.9 to the power of k):
//
//   s <- u + (s - p)        shared: the change that the batch made to p
//   s <- u + d (s - p)      averaged: d s + (1 - d) times the batch's
//   answer s, with x
//
// Tensor2Tensor does the former: its layers see a copy of a variable that was
// read when the step began (expert_utils.py, _add_variable_proxy_methods), and
// the change is computed from that. With N workers, s(t + 1) = s(t) - 0.1
// s(t - N + 1) + ..., which is stable if 0.1 < 2 sin(pi / (4 N - 2)), up to 16
// workers (Levin and May 1976). TensorFlow's own layers compute the change
// where the variable is (colocate_with). If nobody else pushed in between, s =
// p, so one worker's statistics are bitwise those of sequential training.
// Statistics are sent in fp32 regardless of sync.wire.
//
// One service handles pushes in the order in which they are complete; no
// worker's slow message delays another's. A worker's next message comes after
// its last answer, so its gradient and its answer share memory (one slice per
// worker).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "sync/scheme.h"

namespace syncopate {

// A part of a flat range.
struct Slice {
  int64_t offset = 0, elems = 0;
};

// Precedes a slice's gradient (tags::kServer; the gradient uses + 1, its
// statistics, if any, + 2) if it differs from the worker's last one. Under
// asp.pull = before_step, an empty message (tags::kServerPull) requests the
// answer.
struct PushHeader {
  int64_t is_at_boundary = 0;  // 1: nothing follows, now or before begin()
  double rate = 0, momentum = 0;
  bool operator==(const PushHeader&) const = default;
};
// Precedes a slice's values (tags::kServerAnswer; the values use + 1, the
// statistics + 2) if has_pull_header(): without a bound, nothing is held, and
// the staleness of one slice tells that of all.
struct PullHeader {
  int64_t staleness = 0;  // updates by others since this worker's last pull
  double held_s = 0;      // for the bound
};
constexpr bool has_pull_header(int shard, int64_t bound) {
  return shard == 0 || bound >= 0;
}

class ParameterShard {
 public:
  // Shard parts.endpoint.rank(): slices of the model's parameters and, if
  // shared, of its statistics. `apply_s`: virtual seconds to apply a push.
  ParameterShard(const SchemeParts& parts,
                 const Slice& parameters,
                 const Slice& statistics,
                 int64_t bound,
                 double apply_s);

  // Between boundaries only.
  int64_t offset() const { return offset_; }
  int64_t elems() const { return elems_; }
  std::span<const float> values() const { return x_; }
  std::span<const float> statistics() const { return statistics_; }
  Optimizer& optimizer() { return *optimizer_; }
  int64_t num_updates() const { return num_updates_; }
  // Memory, with a message of every worker. Known without values only.
  int64_t bytes() const;
  // record notes pushes in `order`; replay applies pushes only in the given
  // order. Both must outlive their use.
  void record(std::vector<int64_t>* order) { record_ = order; }
  void replay(const std::vector<int64_t>* order) { replay_ = order; }
  void visit_state(StateVisitor& visitor);

  // Adopts a new model, as if it had always been the state.
  void enter(std::span<const float> parameters);
  // All workers hold `parameters` and `statistics` (these slices of them);
  // starts serving. `pushes`: how many each worker has made so far, which a
  // bound counts; empty without one. `pulls_first`: every worker requests a
  // pull before its first push.
  void begin(Endpoint& endpoint,
             const Segment& segment,
             std::span<const float> parameters,
             std::span<const float> statistics,
             std::span<const int64_t> pushes,
             bool pulls_first);
  // Call once all workers are at the boundary.
  void end(Endpoint& endpoint);

 private:
  // Per-worker state. Simulations of many workers wait for its memory.
  struct Lane {
    int num_parts = 0;  // of its push that have arrived, less the header
    // Of its next pull: requested, and allowed by what it pushed before.
    bool is_requested = false, is_due = false;
    int64_t num_pushes = 0;  // applied; without a bound, in this segment
    // The same, when its last pull was requested and due; one less than at the
    // segment's beginning if none was yet.
    int64_t clock = 0;
    int64_t num_updates = 0;  // in total, at its last pull
    Time allowed_at = 0;
    PullHeader pull;
    PushHeader push;
    Payload travels;  // gradient or values, as on the wire
    Request sends[3];
  };
  // The rest of it, which few runs need.
  struct Kept {
    Payload statistics;                     // as on the wire
    DeviceVector<float> pulled_statistics;  // as last answered
    DeviceVector<float> backup;             // per_worker
  };
  void serve(Endpoint& endpoint);
  void take(Endpoint& endpoint, Message message);
  // Applies and answers what it can, without waiting.
  void apply_and_answer(Endpoint& endpoint);
  // Answers a pull that is requested and due, unless the bound holds it back.
  void consider_pull(Endpoint& endpoint, int rank);
  void answer_pulls(Endpoint& endpoint);
  // The worker whose push is to be applied next; -1: none is.
  int next_push() const;
  void apply(Endpoint& endpoint, int rank);
  void add_statistics(const Kept& kept);
  void make_room(Payload& payload, int64_t bytes);
  void answer(Endpoint& endpoint, int rank);
  void keep(Kept& kept);
  DeviceVector<float> make_values(int64_t elems) {
    return {*device_, *stream_, elems};
  }
  void copy(std::span<float> to, std::span<const float> from);

  int index_;  // among the shards
  int64_t offset_, elems_, bound_;
  Wire wire_;
  Compensation compensation_;
  bool has_requests_;  // for pulls, apart from pushes
  double apply_s_;
  float lambda_;
  float statistics_kept_;  // 1, or d
  // Not shared: a service runs concurrently with its worker.
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Context context_;
  std::unique_ptr<Optimizer> optimizer_;
  DeviceVector<float> x_, gradient_;  // gradient_: if sent as bf16
  DeviceVector<float> previous_;      // per_key
  DeviceVector<float> statistics_;
  int64_t num_updates_ = 0;
  std::vector<Lane> lanes_;  // by rank
  std::vector<Kept> kept_;   // by rank; empty if nothing is kept
  std::set<int> pushed_;     // ranks whose push is complete and not applied
  // By clock: ranks whose pull the bound holds back.
  std::map<int64_t, std::vector<int>> pulling_;
  // By clock: how many workers are there and not at the boundary.
  std::map<int64_t, int> clocks_;
  Task service_;
  std::vector<int64_t>* record_ = nullptr;
  const std::vector<int64_t>* replay_ = nullptr;
};

}  // namespace syncopate
