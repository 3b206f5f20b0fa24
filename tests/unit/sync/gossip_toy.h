// What the tests of gossip schemes compare with: recursions over all workers
// at once, in double precision, written from the formulas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/rng.h"
#include "unit/sync/toy_run.h"

namespace syncopate::test {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;  // (workers, elements) or W

inline Matrix mixing_matrix(const TopologyOptions& options, int workers) {
  const Topology topology = make_topology(options, workers);
  Matrix w(workers, Vector(workers, 0.0));
  for (int i = 0; i < workers; ++i) {
    w[i][i] = topology.self_weight(i);
    for (const auto& [j, weight] : topology.neighbours(i)) w[i][j] = weight;
  }
  return w;
}

inline Matrix multiply(const Matrix& w, const Matrix& x) {
  Matrix y(w.size(), Vector(x[0].size(), 0.0));
  for (size_t i = 0; i < w.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j)
      for (size_t e = 0; e < x[0].size(); ++e) y[i][e] += w[i][j] * x[j][e];
  return y;
}

// x + a * y
inline Matrix sum(const Matrix& x, double a, const Matrix& y) {
  Matrix z = x;
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t e = 0; e < x[0].size(); ++e) z[i][e] += a * y[i][e];
  return z;
}

inline Vector mean_of(const Matrix& x) {
  Vector mean(x[0].size(), 0.0);
  for (const Vector& row : x)
    for (size_t e = 0; e < mean.size(); ++e)
      mean[e] += row[e] / static_cast<double>(x.size());
  return mean;
}

// sum_i |x_i - mean|^2
inline double consensus_error(const Matrix& x) {
  const Vector mean = mean_of(x);
  double error = 0;
  for (const Vector& row : x)
    for (size_t e = 0; e < mean.size(); ++e)
      error += (row[e] - mean[e]) * (row[e] - mean[e]);
  return error;
}

inline int64_t elems_of(const ToyRun& run) {
  return std::accumulate(run.tensors.begin(), run.tensors.end(), int64_t{0});
}

inline Matrix start_of(const ToyRun& run, int workers) {
  Matrix x(workers, Vector(elems_of(run)));
  for (int i = 0; i < workers; ++i)
    for (size_t e = 0; e < x[i].size(); ++e)
      x[i][e] = static_cast<double>(run.start(i, static_cast<int64_t>(e)));
  return x;
}

inline Matrix gradients_at(const ToyRun& run, int64_t step, const Matrix& x) {
  Matrix g = x;
  for (size_t i = 0; i < x.size(); ++i) {
    const std::vector<float> at(x[i].begin(), x[i].end());
    std::vector<float> gradient(at.size());
    (run.gradient ? run.gradient : quadratic_gradient)(static_cast<int>(i),
                                                       step, at, gradient);
    g[i].assign(gradient.begin(), gradient.end());
  }
  return g;
}

// Of each worker's row, identity or top_k by tensor, as `run` has it.
inline Matrix compress(const ToyRun& run, const Matrix& x) {
  if (run.sync.compress.kind == "identity") return x;
  EXPECT_EQ(run.sync.compress.kind, "top_k");
  Matrix q(x.size(), Vector(x[0].size(), 0.0));
  for (size_t i = 0; i < x.size(); ++i) {
    size_t begin = 0;
    for (const int64_t elems : run.tensors) {
      std::vector<size_t> order(elems);
      std::iota(order.begin(), order.end(), begin);
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return std::abs(x[i][a]) > std::abs(x[i][b]);
      });
      const double share = 1 - run.sync.compress.ratio;
      const auto kept = std::max<int64_t>(
          1, static_cast<int64_t>(static_cast<double>(elems) * share));
      for (int64_t k = 0; k < kept; ++k) q[i][order[k]] = x[i][order[k]];
      begin += elems;
    }
  }
  return q;
}

inline void expect_near(const Matrix& a, const Matrix& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    for (size_t e = 0; e < a[i].size(); ++e)
      ASSERT_NEAR(a[i][e], b[i][e], tolerance)
          << "worker " << i << " element " << e;
  }
}

// Values in (-1, 1) that differ everywhere.
inline float unlike_start(int rank, int64_t i) {
  Rng rng(5, Purpose::kTest, rank, i);
  return static_cast<float>(2 * rng.uniform() - 1);
}

// Of 1/2 |x - c|^2, c differing everywhere.
inline void unlike_gradient(int rank,
                            int64_t step,
                            std::span<const float> x,
                            std::span<float> gradient) {
  for (size_t i = 0; i < x.size(); ++i)
    gradient[i] = x[i] - unlike_start(100 + rank, static_cast<int64_t>(i)) +
                  0.01f * static_cast<float>(step % 3);
}

// 8 s for the first step of worker 0, 1 s for all others.
inline std::function<double(int, int64_t)> one_slow_step() {
  return [is_first = true](int rank, int64_t) mutable {
    return rank == 0 && std::exchange(is_first, false) ? 8.0 : 1.0;
  };
}

// How far the mean over the workers moves in the last 1,000 of `steps` steps,
// whose rate is 0, after steps of rate 0.1 with gradients that keep the workers
// apart. (The largest change of an element.)
inline double mean_drift(ToyRun run, int workers, int64_t steps) {
  constexpr int64_t kStill = 1000;
  const double moving = static_cast<double>(steps - kStill);
  run.steps = steps;
  run.boundary_every = kStill;
  run.optimizer.lr = 0.1;
  run.schedule = {.kind = ScheduleKind::kMultistep,
                  .milestones = {{.value = moving}},
                  .gamma = 0};
  Matrix before(workers), after(workers);
  run.at_boundary = [&](int rank, int64_t worker_steps, Scheme&,
                        Replica& replica) {
    OnHost x(replica.parameters);
    const std::span<const float> values = x.values();
    if (worker_steps == (steps - kStill) * workers)
      before[rank].assign(values.begin(), values.end());
    after[rank].assign(values.begin(), values.end());
  };
  train_toy(workers, run);
  const Vector then = mean_of(before), now = mean_of(after);
  double drift = 0;
  for (size_t e = 0; e < now.size(); ++e)
    drift = std::max(drift, std::abs(now[e] - then[e]));
  return drift;
}

// Equal starts, and no two values of equal size for top_k to choose from.
inline ToyRun gossip_run(const std::string& scheme) {
  ToyRun run;
  run.sync.scheme = scheme;
  run.steps = 5;
  run.start = [](int, int64_t i) { return unlike_start(0, i); };
  run.gradient = unlike_gradient;
  run.sync.compress = {.kind = "top_k", .ratio = 0.7};
  return run;
}

// Every topology, each with some numbers of workers that it accepts.
inline std::vector<std::pair<TopologyOptions, int>> all_topologies() {
  std::vector<std::pair<TopologyOptions, int>> all;
  for (const auto& [keyword, description] : topology_table()) {
    const size_t before = all.size();
    for (const int workers : {1, 2, 3, 4, 6, 7, 8, 9, 16, 32}) {
      if (workers > 9 && all.size() - before > 1) continue;
      const TopologyOptions options{.kind = keyword};
      try {
        make_topology(options, workers);
        all.emplace_back(options, workers);
      } catch (const Error&) {
      }
    }
    EXPECT_GT(all.size(), before) << keyword;
  }
  return all;
}

inline std::vector<CompressOptions> contractive_compressors() {
  return {{.kind = "identity"},
          {.kind = "sign"},
          {.kind = "top_k", .ratio = 0.8},
          {.kind = "random_k", .ratio = 0.8, .biased = true},
          {.kind = "qsgd", .bits = 4, .biased = true}};
}

// A scheme's float ranges by name, over all tensors.
class StateReader final : public StateVisitor {
 public:
  void visit(Owner, std::string_view name, std::span<float> v) override {
    Vector& range = ranges[std::string(name.substr(0, name.find('/')))];
    range.insert(range.end(), v.begin(), v.end());
  }
  void visit(Owner, std::string_view, std::span<int64_t>) override {}
  void visit(Owner, std::string_view name, std::span<double> v) override {
    numbers[std::string(name)].assign(v.begin(), v.end());
  }
  std::map<std::string, Vector> ranges, numbers;
};

// By worker, at the run's last boundary.
inline std::vector<StateReader> states_after(int workers, ToyRun run) {
  std::vector<StateReader> states(workers);
  run.at_boundary = [&](int rank, int64_t, Scheme& scheme, Replica&) {
    states[rank] = {};
    scheme.visit_state(states[rank]);
  };
  train_toy(workers, run);
  return states;
}

inline Matrix range_of(const std::vector<StateReader>& states,
                       const std::string& name) {
  Matrix all;
  for (const StateReader& state : states) all.push_back(state.ranges.at(name));
  return all;
}

// With a boundary every third step and a restart at one of them, the bits and
// the clocks are those without; and without any boundary.
inline void expect_resumes(int workers, ToyRun run, const NetworkCost& cost) {
  run.optimizer.momentum = 0.9;
  run.steps = 10;
  const ToyResult straight = train_toy(workers, run, cost);
  run.boundary_every = 3;
  const ToyResult parted = train_toy(workers, run, cost);
  EXPECT_EQ(parted.parameters, straight.parameters);
  EXPECT_EQ(parted.payload_bytes, straight.payload_bytes);
  for (const int64_t restart_at : {3, 6}) {
    run.restart_at = restart_at;
    const ToyResult resumed = train_toy(workers, run, cost);
    EXPECT_EQ(resumed.parameters, parted.parameters);
    EXPECT_EQ(resumed.clock, parted.clock);
  }
  for (int i = 0; i < workers; ++i)
    EXPECT_NEAR(parted.clock[i], straight.clock[i], 1e-9);
}

// degree x message_bytes a step, whatever the buckets.
inline void expect_bytes(ToyRun run, int64_t message_bytes) {
  for (const char* kind : {"ring", "complete", "exponential"}) {
    for (const int workers : {1, 2, 3, 6}) {
      run.sync.topology.kind = kind;
      run.bucket_elems = 16;
      const ToyResult result = train_toy(workers, run);
      const Topology topology = make_topology(run.sync.topology, workers);
      for (int i = 0; i < workers; ++i)
        EXPECT_EQ(result.payload_bytes[i],
                  (topology.scaling(i) - 1) * message_bytes * run.steps);
      run.bucket_elems = 1;
      EXPECT_EQ(train_toy(workers, run).parameters, result.parameters);
    }
  }
}

inline int64_t toy_message_bytes(const ToyRun& run) {
  return message_bytes(run.sync.compress,
                       ToyModel(run.tensors, 0).parameters());
}

}  // namespace syncopate::test
