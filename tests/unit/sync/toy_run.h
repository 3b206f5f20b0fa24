// Runs a scheme as the training loop does, with a function as the network, so
// that identities and properties can be tested without images. The same source
// serves one process and MPI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "comm/tags.h"
#include "comm/world.h"
#include "support/test_device.h"
#include "sync/bucket.h"
#include "topology/topology.h"
#include "unit/sync/toy_model.h"

namespace syncopate::test {

struct ToyRun {
  SyncOptions sync;
  OptimizerOptions optimizer{.lr = 0.1, .momentum = 0, .weight_decay = 0};
  ScheduleOptions schedule;
  std::vector<int64_t> tensors = {7, 1, 40};
  std::vector<Shape> shapes;  // instead of tensors
  size_t num_tables = 0;      // of shapes, the first
  int64_t num_buffers = 3;
  int64_t steps = 10;          // worker_steps / N
  int64_t boundary_every = 0;  // steps; 0: at the end only
  int64_t restart_at = 0;      // save, build anew and load at this boundary
  int64_t bucket_elems = 16;
  double steps_per_epoch = 5;
  int64_t batches_per_step = 1;
  uint64_t seed = 1;
  // Virtual seconds per step: by worker (empty: 1), or by worker and step.
  std::vector<double> step_s;
  std::function<double(int rank, int64_t step)> step_time;
  std::vector<double> batch_weight;  // by worker; empty: 1
  // sync_switch: options of each phase; empty: `sync` and `optimizer`.
  std::vector<SyncOptions> phase_sync;
  std::vector<OptimizerOptions> phase_optimizer;
  // Initial values. Schemes that keep replicas equal need equal ones.
  std::function<float(int rank, int64_t i)> start = [](int, int64_t i) {
    return 0.01f * static_cast<float>(i % 13) - 0.05f;
  };
  // The gradient at x in a worker's step (its own count).
  std::function<void(int rank,
                     int64_t step,
                     std::span<const float> x,
                     std::span<float> gradient)>
      gradient;
  // Updates a worker's statistics; by default they depend only on rank and
  // step.
  std::function<void(int rank, int64_t step, std::span<float> statistics)>
      statistics;
  // In one process: called on each worker. Values through OnHost.
  std::function<void(int rank, const StepPlan&, Scheme&, Replica&)> after_step;
  std::function<void(int rank, int64_t worker_steps, Scheme&, Replica&)>
      at_boundary;
  std::function<void(int rank, Replica&)> before_gather;
  // Whether a worker asks, after so many steps, to end the segment.
  std::function<bool(int rank, int64_t steps)> asks_to_stop;
  // Called where resume() has taken time.
  std::function<void(int rank, Scheme&)> after_resume;
  // Called for a step that this worker only follows.
  std::function<void(int rank, const StepPlan&, Scheme&)> after_idle;
};

inline ToyRun run_of(const std::string& scheme) {
  ToyRun run;
  run.sync.scheme = scheme;
  return run;
}

// Short phases and rounds, and the keys that the scheme needs.
inline ToyRun quick_run_of(const std::string& scheme) {
  ToyRun run = run_of(scheme);
  run.steps = 20;
  run.sync.topology.kind = "ring";
  run.sync.compress.kind = scheme == "dgc" ? "top_k" : "sign";
  run.sync.ssp.bound = 1;
  run.sync.local_sgd.steps = 3;
  run.sync.sync_switch.order = {"bsp", "asp", "local_sgd"};
  run.sync.sync_switch.fractions = {0.3, 0.3, 0.4};
  return run;
}

inline ToyModel model_of(const ToyRun& run) {
  return run.shapes.empty() ? ToyModel(run.tensors, run.num_buffers)
                            : ToyModel(run.num_tables, run.shapes);
}

inline std::vector<std::string> every_scheme() {
  std::vector<std::string> names;
  for (const SchemeInfo& info : scheme_table()) names.push_back(info.keyword);
  return names;
}

// The reason why the scheme refuses the run; "" if it accepts it.
inline std::string obstacle_of(const ToyRun& run, int workers) {
  const ToyModel model = model_of(run);
  return scheme_obstacle({run.sync, run.optimizer, model.parameters(), workers,
                          run.steps, run.steps_per_epoch});
}

// By worker, the same on all workers.
struct ToyResult {
  std::vector<std::vector<double>> parameters, buffers;
  std::vector<int64_t> steps;
  std::vector<double> clock;  // virtual, when its last step ended
  std::vector<int64_t> payload_bytes, payload_messages;
};

// A strongly convex sum: worker i's gradient of 1/2 |x - c_i|^2, with c_i
// depending on rank and element, and a little on the step.
inline void quadratic_gradient(int rank,
                               int64_t step,
                               std::span<const float> x,
                               std::span<float> gradient) {
  for (size_t i = 0; i < x.size(); ++i) {
    const float target = static_cast<float>(rank + 1) *
                             (0.1f + 0.01f * static_cast<float>(i % 7)) +
                         0.001f * static_cast<float>(step % 3);
    gradient[i] = x[i] - target;
  }
}

inline void toy_statistics(int rank,
                           int64_t step,
                           std::span<float> statistics) {
  std::fill(statistics.begin(), statistics.end(),
            static_cast<float>(rank) + 0.5f * static_cast<float>(step));
}

class ToyWorker {
 public:
  ToyWorker(const ToyRun& run, Endpoint& endpoint)
      : run_(run),
        endpoint_(endpoint),
        model_(model_of(run)),
        schedule_(run.schedule,
                  run.optimizer.lr,
                  static_cast<double>(run.steps),
                  run.steps_per_epoch),
        bucketer_(model_.parameters(), run.bucket_elems, tables_of(run.sync)) {
    build();
    const int rank = endpoint.rank();
    std::vector<float> x(replica_->parameters.size());
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = run.start(rank, static_cast<int64_t>(i));
    replica_->parameters.assign(x);
    scheme_->enter();
  }

  ToyResult train() {
    const int64_t N = endpoint_.size(), total = run_.steps * N;
    const int64_t every =
        run_.boundary_every > 0 ? run_.boundary_every * N : total;
    int64_t done = 0;
    std::vector<double> clock = {endpoint_.now()};
    while (done < total) {
      const int64_t until = std::min(total, (done / every + 1) * every);
      double earliest = endpoint_.now();
      agree(endpoint_, endpoint_.world_group(), std::span(&earliest, 1),
            Combine::kMin, tags::kControl);
      endpoint_.set_clock(earliest);
      if (endpoint_.has_virtual_time())
        barrier(endpoint_, endpoint_.world_group(), tags::kControl);
      endpoint_.leave_boundary(earliest);
      scheme_->begin({done, until, earliest});
      endpoint_.set_clock(clock[0]);
      if (scheme_->resume()) {
        clock[0] = endpoint_.now();
        if (run_.after_resume) run_.after_resume(endpoint_.rank(), *scheme_);
      }
      for (bool has_stepped = false;; has_stepped = true) {
        const bool asks =
            has_stepped && run_.asks_to_stop &&
            run_.asks_to_stop(endpoint_.rank(), scheme_->steps_done());
        const StepPlan plan =
            scheme_->next({.stop = asks ? 1 : 0, .step_s = last_step_s_});
        if (plan.stop) break;
        if (plan.is_idle) {
          if (run_.after_idle)
            run_.after_idle(endpoint_.rank(), plan, *scheme_);
          continue;
        }
        step(plan);
        clock[0] = endpoint_.now();
      }
      endpoint_.come_to_boundary();
      scheme_->quiesce();
      if (run_.before_gather) run_.before_gather(endpoint_.rank(), *replica_);
      scheme_->gather();
      double steps = static_cast<double>(scheme_->steps_done());
      agree(endpoint_, endpoint_.world_group(), std::span(&steps, 1),
            Combine::kSum, tags::kControl);
      EXPECT_GT(static_cast<int64_t>(steps), done);
      done = static_cast<int64_t>(steps);
      if (run_.at_boundary)
        run_.at_boundary(endpoint_.rank(), done, *scheme_, *replica_);
      endpoint_.set_clock(clock[0]);
      if (done == run_.restart_at * N) restart();
      if (done >= total) scheme_->finish(RunEnd::kLastStep);
      endpoint_.set_clock(clock[0]);
    }
    return gather(clock[0]);
  }

 private:
  double step_s() const {
    if (run_.step_time)
      return run_.step_time(endpoint_.rank(), scheme_->steps_done());
    return run_.step_s.empty() ? 1 : run_.step_s[endpoint_.rank()];
  }

  void build_phases() {
    phases_.clear();
    for (const std::string& scheme : phase_schemes(run_.sync.sync_switch)) {
      const size_t phase = phases_.size();
      Phase built{run_.sync, run_.optimizer, schedule_};
      if (!run_.phase_sync.empty()) built.sync = run_.phase_sync[phase];
      if (!run_.phase_optimizer.empty())
        built.optimizer = run_.phase_optimizer[phase];
      built.schedule =
          Schedule(run_.schedule, built.optimizer.lr,
                   static_cast<double>(run_.steps), run_.steps_per_epoch);
      built.sync.scheme = scheme;
      phases_.push_back(built);
    }
  }

  void build() {
    build_phases();
    replica_ = std::make_unique<Replica>(test_.context, model_, run_.optimizer);
    scheme_ = make_scheme({.endpoint = endpoint_,
                           .context = test_.context,
                           .replica = *replica_,
                           .model = model_,
                           .sync = run_.sync,
                           .optimizer = run_.optimizer,
                           .schedule = schedule_,
                           .seed = run_.seed,
                           .total_steps = run_.steps,
                           .steps_per_epoch = run_.steps_per_epoch,
                           .batches_per_step = run_.batches_per_step,
                           .batch_weights = run_.batch_weight,
                           .phases = phases_});
  }

  void restart() {
    StateInMemory state(StateInMemory::Way::kSave);
    scheme_->visit_state(state);
    scheme_.reset();
    replica_.reset();
    build();
    state.turn(StateInMemory::Way::kLoad);
    scheme_->visit_state(state);
    state.check_all_loaded();
  }

  // Performs forward and backward, then lets their time pass.
  void step(const StepPlan& plan) {
    scheme_->begin_step(plan);
    {
      OnHost x(replica_->parameters.write());
      std::vector<float> gradient(x.values().size(), 0.0f);
      run_.gradient(endpoint_.rank(), plan.step, x.values(), gradient);
      replica_->gradients.assign(gradient);
      if (!replica_->buffers.empty()) {
        OnHost statistics(replica_->buffers);
        run_.statistics(endpoint_.rank(), plan.step, statistics.values());
        statistics.put_back();
      }
    }
    bucketer_.start();
    last_step_s_ = step_s();
    const int64_t elems = replica_->parameters.size();
    for (int part = 1; part <= 4; ++part) {
      endpoint_.advance(last_step_s_ / 4);
      bucketer_.final_from(elems - elems * part / 4, [&](const Bucket& bucket) {
        scheme_->gradient_ready(bucket, plan);
      });
      if (scheme_->abandons_step()) break;
    }
    scheme_->update(plan);
    scheme_->end_step(plan);
    if (run_.after_step)
      run_.after_step(endpoint_.rank(), plan, *scheme_, *replica_);
  }

  std::vector<std::vector<double>> gather_values(const std::vector<double>& v) {
    return all_gather(endpoint_, endpoint_.world_group(), v, tags::kEvaluation,
                      Traffic::kEvaluation);
  }
  std::vector<std::vector<double>> gather_range(const DeviceVector<float>& v) {
    if (v.empty()) return {};
    OnHost host(v);
    return gather_values({host.values().begin(), host.values().end()});
  }
  ToyResult gather(double clock) {
    ToyResult result;
    result.parameters = gather_range(replica_->parameters.write());
    result.buffers = gather_range(replica_->buffers);
    const auto payload = static_cast<size_t>(Traffic::kPayload);
    const TrafficCounters& sent = endpoint_.traffic();
    const auto own =
        gather_values({static_cast<double>(scheme_->steps_done()), clock,
                       static_cast<double>(sent.bytes_sent[payload]),
                       static_cast<double>(sent.messages_sent[payload])});
    for (const auto& worker : own) {
      result.steps.push_back(static_cast<int64_t>(worker[0]));
      result.clock.push_back(worker[1]);
      result.payload_bytes.push_back(static_cast<int64_t>(worker[2]));
      result.payload_messages.push_back(static_cast<int64_t>(worker[3]));
    }
    return result;
  }

  const ToyRun& run_;
  Endpoint& endpoint_;
  TestContext test_{1};
  ToyModel model_;
  Schedule schedule_;
  std::vector<Phase> phases_;
  Bucketer bucketer_;
  double last_step_s_ = 0;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Scheme> scheme_;
};

inline ToyResult train_toy(World& world, ToyRun run) {
  if (!run.gradient) run.gradient = quadratic_gradient;
  if (!run.statistics) run.statistics = toy_statistics;
  ToyResult result;
  world.run([&](Endpoint& endpoint) {
    ToyWorker worker(run, endpoint);
    const ToyResult mine = worker.train();
    if (endpoint.rank() == 0 || !world.is_inproc()) result = mine;
  });
  return result;
}

// In one process; free messages unless said otherwise.
inline ToyResult train_toy(int workers,
                           ToyRun run,
                           const NetworkCost& cost = {}) {
  return train_toy(*make_inproc_world(workers, cost), std::move(run));
}

inline void expect_equal_replicas(const ToyResult& result) {
  for (const auto& of_rank : result.parameters)
    EXPECT_EQ(of_rank, result.parameters[0]);
}

inline int64_t sum_of(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

// Checks that a run which is stopped at one of its boundaries and resumed ends
// with the bits, clocks and rows of an uninterrupted one.
inline ToyResult expect_resumes(int workers,
                                ToyRun run,
                                const std::vector<int64_t>& restarts,
                                const NetworkCost& cost = {}) {
  std::vector<std::vector<double>> rows(workers);
  run.after_step = [&](int rank, const StepPlan&, Scheme& scheme, Replica&) {
    rows[rank] = scheme.take_series();
    for (double& value : rows[rank])
      if (std::isnan(value)) value = -1;
  };
  run.restart_at = 0;
  const ToyResult straight = train_toy(workers, run, cost);
  const auto straight_rows = rows;
  for (const int64_t restart_at : restarts) {
    SCOPED_TRACE(run.sync.scheme + " of " + std::to_string(workers) +
                 ", resumed at " + std::to_string(restart_at));
    run.restart_at = restart_at;
    const ToyResult resumed = train_toy(workers, run, cost);
    EXPECT_EQ(resumed.parameters, straight.parameters);
    EXPECT_EQ(resumed.buffers, straight.buffers);
    EXPECT_EQ(resumed.steps, straight.steps);
    EXPECT_EQ(resumed.clock, straight.clock);
    EXPECT_EQ(resumed.payload_bytes, straight.payload_bytes);
    EXPECT_EQ(rows, straight_rows);
  }
  return straight;
}

// Also compares with a run without boundaries.
inline ToyResult expect_boundaries_change_nothing(
    int workers,
    ToyRun run,
    const std::vector<int64_t>& restarts,
    const NetworkCost& cost = {}) {
  const ToyResult parted = expect_resumes(workers, run, restarts, cost);
  run.boundary_every = 0;
  const ToyResult whole = train_toy(workers, run, cost);
  EXPECT_EQ(parted.parameters, whole.parameters);
  EXPECT_EQ(parted.buffers, whole.buffers);
  EXPECT_EQ(parted.payload_bytes, whole.payload_bytes);
  for (int i = 0; i < workers; ++i)
    EXPECT_NEAR(parted.clock[i], whole.clock[i], 1e-9);
  return parted;
}

}  // namespace syncopate::test
