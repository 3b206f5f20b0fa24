// Asynchronous stochastic gradient descent with a sharded parameter server
// (Dean et al. 2012, Downpour with a push and a pull every step; the ASP of
// Sync-Switch). Worker i, at its own speed:
//
//   g = gradient of its batch at what it pulled last
//   push g, and the step's rate and momentum, to every shard
//   x = the shards' answer: their slices after this update
//
// The slice of a shard is pushed during backward as soon as it is final, unless
// optimizer.clip_norm needs all of g first. With asp.pull = after_push it is
// answered at once (as by MXNet's servers), so that both directions overlap
// with backward. With before_step, a worker requests x when it begins a step
// (as TensorFlow's do): it waits for the whole answer, but x is newer.
//
// There is no barrier and no lock. The first asp.servers workers (0: all) each
// hold a shard; parameter_shard.h says what it does with a push. The shards own
// the optimizer state: replica.optimizer is freed meanwhile. With N equal
// shards, a step sends 2 (N-1)/N times the model. One worker is sequential SGD.
//
// BatchNorm's running statistics stay local to each worker or, with
// asp.batchnorm = shared or averaged, are kept by the server like the
// parameters: a push brings what a batch did to them, a pull what all did.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/order_keeper.h"
#include "sync/parameter_shard.h"
#include "sync/scheme_base.h"
#include "sync/shard_exchange.h"
#include "sync/staleness.h"

namespace syncopate {

class Asp : public SchemeBase {
 public:
  // `bound`: how far a worker may be ahead of another (ssp.cpp).
  explicit Asp(const SchemeParts& parts, int64_t bound = Tickets::kNoBound);
  void enter() override;
  void begin(const Segment& given) override;
  StepPlan next(const StepRequest& mine) override;
  void gradient_ready(const Bucket& bucket, const StepPlan& plan) override;
  void update(const StepPlan& plan) override;
  bool is_pulling() const override { return exchange_.is_in_flight(); }
  void quiesce() override;
  void gather() override;
  void leave(double rate) override;
  void finish(RunEnd) override { order_.write(); }
  void visit_state(StateVisitor& visitor) override;
  int64_t server_bytes() const override {
    return shard_ && !parts_.endpoint.has_servers_apart() ? shard_->bytes() : 0;
  }
  std::vector<SeriesInfo> series() const override { return stale_.series(); }
  std::vector<double> take_series() override { return stale_.take(); }

  Tickets& tickets() { return static_cast<Tickets&>(*pace_); }

 private:
  void check_counters();
  std::vector<int64_t> steps_of_workers();
  bool pulls_first(const StepRequest& mine);
  void pull(const StepRequest& mine);
  void await_pulled();
  OnHost own_slice(std::span<float> range, const Slice& slice);

  ShardExchange exchange_;
  std::unique_ptr<ParameterShard> shard_;  // on the first asp.servers workers
  bool is_open_ = false, has_left_ = false, is_gathered_ = true;
  bool has_entered_ = false;  // and has not completed a segment
  int64_t num_pushes_ = 0;
  // When the last pull was complete. A boundary sets clocks back before it, but
  // the next step still waits for it.
  double pulled_at_ = 0;
  Staleness stale_;
  double server_update_s_;  // virtual, of all parameters; 0: workers spend it
  bool is_bounded_;
  OrderKeeper order_;
};

// The keys and the traffic of asp; ssp has them too.
std::vector<Key> asp_keys();
std::optional<double> asp_bytes(const TrafficPlan& plan);

}  // namespace syncopate
