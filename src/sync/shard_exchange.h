// A worker's side of a sharded parameter server: sends its gradient to every
// shard and receives its parameters back, concurrently with the worker; under
// asp.batchnorm = shared, BatchNorm's running statistics as well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

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

  // Pushes the replica's gradients and shared statistics, as left by the work
  // submitted to the context's stream so far. They and the parameters must not
  // be touched until finish().
  void start(double rate, double momentum);
  bool is_in_flight() const { return task_ != nullptr; }
  // On return, parameters and shared statistics are those of the shards.
  SyncTimes finish();
  int64_t staleness() const { return pulls_[0].staleness; }  // of this push
  // Announces that no push will come before the next boundary.
  void tell_boundary();

  // Gathers each shard's `own` slice (empty: no shard here) into all workers'
  // `range`, in host memory, of the length of the parameters or of the
  // statistics. Collective.
  void gather(std::span<float> range, std::span<const float> own);
  // Does the same for the replica's parameters and shared statistics; `shard`
  // is the local one, or null.
  void gather_replica(const ParameterShard* shard);

 private:
  void run(Endpoint& endpoint);
  void receive(Endpoint& endpoint);
  void send(Endpoint& endpoint, int shard);
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
  Mirror gradients_, parameters_;
  std::optional<Mirror> statistics_;  // if they are shared
  // On the host they are pushed from here: the answer overwrites the original.
  Scratch<float> pushed_statistics_;
  int64_t num_statistics_ = 0;
  Buffer rounded_push_, rounded_pull_;  // bf16, if the device rounds
  std::unique_ptr<Event> ready_;
  // Owned by the task while it runs.
  PushHeader push_;                // the last one
  bool has_header_ = false;        // whether the push in flight has one
  std::vector<PullHeader> pulls_;  // by shard
  Scratch<uint16_t> packed_push_, packed_pull_;  // bf16, if the host rounds
  std::vector<Request> sends_, receives_;
  Time has_gradients_at_ = 0;
  Task task_;
};

}  // namespace syncopate
