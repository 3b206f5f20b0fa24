// A worker's side of a sharded parameter server: pushes a shard's slice of the
// gradient during backward, as soon as it is final, and receives that slice of
// the parameters back, at once or, under asp.pull = before_step, on request;
// under asp.batchnorm = shared, slices of BatchNorm's running statistics as
// well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "comm/host_values.h"
#include "comm/mirror.h"
#include "sync/parameter_shard.h"

namespace syncopate {

// Resolves sync.asp.servers: every shard has at least one element.
int num_shards(const SyncOptions& sync, int workers, int64_t elems);

class ShardExchange {
 public:
  // `bound`: that of the shards.
  ShardExchange(const SchemeParts& parts, int64_t bound);

  int num_shards() const { return num_shards_; }
  // Slices of the parameters, and of shared statistics; worker i holds shard i.
  Slice slice(int shard) const;
  Slice statistics_slice(int shard) const;

  // Pushes what is complete of the replica's gradients, which are final at
  // offset >= `from` (0: all) once the work submitted to the context's stream
  // so far is done, and of the shared statistics; the shards apply them with
  // the rate and momentum of `plan`. Until finish(), these slices must not be
  // touched, nor the same slices of the parameters: pulls overwrite them.
  void push_from(int64_t from, const StepPlan& plan);
  // Under asp.pull = before_step: requests all parameters and shared
  // statistics, as they are once the shards have applied the pushes so far.
  void request_pull();
  bool has_requests() const { return has_requests_; }
  bool is_in_flight() const { return num_waves_ > 0; }
  // Call after push_from(0, ...) and, if pulls are requested, request_pull().
  // On return, parameters and shared statistics are those of the shards.
  SyncTimes finish();
  // Of this step's push.
  int64_t staleness() const { return shards_[0].pull.staleness; }
  // Announces that no push will come before the next boundary.
  void tell_boundary();

  // Gathers each shard's `own` slice (empty: no shard here) into all workers'
  // `range`, in host memory, of the length of the parameters or of the
  // statistics. Collective.
  void gather(std::span<float> range, std::span<const float> own, Traffic kind);
  // Does the same for the replica's parameters and shared statistics; `shard`
  // is the local one, or null.
  void gather_replica(const ParameterShard* shard, Traffic kind);

 private:
  struct Shard {
    PullHeader pull;
    // Headers, values, statistics; null: none.
    std::array<Request, 3> sends, receives;
    Request request;
  };
  // A push to adjacent shards, and the pull that answers it; or one of them.
  struct Wave {
    bool pushes = true, pulls = true;
    int first = 0, last = 0;  // shards; excluding `last`
    std::unique_ptr<Event> ready;
    std::pair<Time, Time> busy;       // from when its gradients were there
    Task task;                        // under MPI
    std::unique_ptr<Endpoint> slice;  // in virtual time, with a trace
  };
  void await_wave();
  Wave& add_wave(int first, int last);
  void start(Wave& wave);
  Endpoint& endpoint_of(const Wave& wave) {
    return wave.slice ? *wave.slice : parts_.endpoint;
  }
  void submit(Endpoint& endpoint, Wave& wave);
  void post_receives(Endpoint& endpoint, int shard);
  void send(Endpoint& endpoint, Wave& wave, int shard);
  void request(Endpoint& endpoint, int shard);
  void complete(Endpoint& endpoint, Wave& wave);
  void round_gradients(const Wave& wave);
  Slice part(int64_t elems, int shard) const;
  Bytes on_wire(Scratch<uint16_t>& packed,
                const Buffer& rounded,
                Mirror& mirror,
                int shard);
  bool host_rounds() const {
    return wire_ == Wire::kBf16 && rounded_push_.data() == nullptr;
  }

  SchemeParts parts_;
  Group world_;
  Wire wire_;
  int64_t bound_;
  int num_shards_;
  bool has_requests_;  // for pulls, apart from pushes
  // Whether each wave has a task. In virtual time the worker can push, and
  // wait for the pulls, itself: that takes as long, and less to simulate.
  bool has_tasks_;
  Mirror gradients_, parameters_;
  std::optional<Mirror> statistics_;  // if they are shared
  // On the host they are pushed from here: the answer overwrites the original.
  Scratch<float> pushed_statistics_;
  int64_t num_statistics_ = 0;
  Buffer rounded_push_, rounded_pull_;           // bf16, if the device rounds
  Scratch<uint16_t> packed_push_, packed_pull_;  // bf16, if the host rounds
  PushHeader push_;                              // the last one
  bool has_header_ = false;  // whether this step's pushes have one
  int num_unpushed_ = 0;     // shards: the first ones
  int64_t due_from_ = 0;     // once it is final from here, a wave is due
  std::deque<Wave> waves_;   // the first num_waves_ are in flight
  size_t num_waves_ = 0;
  std::vector<std::pair<Time, Time>> busy_;  // of these, in finish()
  std::vector<Shard> shards_;
};

}  // namespace syncopate
