// Helpers of the tests of gossip schemes: mixing matrices, runs in which all
// values differ, access to a worker's state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/rng.h"
#include "unit/sync/captured_state.h"
#include "unit/sync/reference.h"

namespace syncopate::test {

inline Matrix mixing_matrix(const TopologyOptions& options, int workers) {
  const Topology topology = make_topology(options, workers);
  Matrix w(workers, Vector(workers, 0.0));
  for (int i = 0; i < workers; ++i) {
    w[i][i] = topology.self_weight(i);
    for (const auto& [j, weight] : topology.neighbours(i)) w[i][j] = weight;
  }
  return w;
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

// Compresses each worker's row according to `run`: identity, or top_k by
// tensor.
inline Matrix compress(const ToyRun& run, const Matrix& x) {
  if (run.sync.compress.kind == "identity") return x;
  EXPECT_EQ(run.sync.compress.kind, "top_k");
  Matrix q(x.size(), Vector(x[0].size(), 0.0));
  for (size_t i = 0; i < x.size(); ++i) {
    size_t begin = 0;
    for (const int64_t elems : run.tensors) {
      keep_largest(run.sync.compress.ratio,
                   std::span(x[i]).subspan(begin, elems),
                   std::span(q[i]).subspan(begin, elems));
      begin += elems;
    }
  }
  return q;
}

// Values in (-1, 1) that differ everywhere.
inline float unlike_start(int rank, int64_t i) {
  Rng rng(5, Purpose::kTest, rank, i);
  return static_cast<float>(2 * rng.uniform() - 1);
}

// The gradient of 1/2 |x - c|^2, where all elements of c differ.
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

inline std::vector<CompressOptions> contractive_compressors() {
  return {{.kind = "identity"},
          {.kind = "sign"},
          {.kind = "top_k", .ratio = 0.8},
          {.kind = "random_k", .ratio = 0.8, .biased = true},
          {.kind = "qsgd", .bits = 4, .biased = true}};
}

// No two values have the same magnitude, so top_k's choice is unique. Workers
// start from different models unless the scheme initializes its copies of
// neighbours from its own model.
inline ToyRun gossip_run(const std::string& scheme) {
  ToyRun run = run_of(scheme);
  run.steps = 5;
  run.start = unlike_start;
  if (scheme == "dcd_psgd" || scheme == "ecd_psgd")
    run.start = [](int, int64_t i) { return unlike_start(0, i); };
  run.gradient = unlike_gradient;
  run.sync.compress = {.kind = "top_k", .ratio = 0.7};
  run.sync.choco.gamma = 0.4;
  return run;
}

inline bool is_compressed(const std::string& scheme) {
  return scheme != "d_psgd" && scheme != "sgp";
}

// One run per format of messages: fp32 and bf16, or each compressor.
inline std::vector<ToyRun> gossip_runs(const std::string& scheme) {
  std::vector<ToyRun> runs;
  ToyRun run = gossip_run(scheme);
  if (is_compressed(scheme)) {
    for (const CompressOptions& compress : contractive_compressors()) {
      run.sync.compress = compress;
      runs.push_back(run);
    }
    return runs;
  }
  for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
    run.sync.wire = wire;
    runs.push_back(run);
  }
  return runs;
}

// For SCOPED_TRACE.
inline std::string text_of(const ToyRun& run, int workers) {
  return fmt::format("{}, {}, {}, {} of {}", run.sync.scheme,
                     run.sync.compress.kind, name_of(run.sync.wire),
                     run.sync.topology.kind, workers);
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

// By worker, at the run's last boundary.
inline std::vector<CapturedState> states_after(int workers, ToyRun run) {
  std::vector<CapturedState> states(workers);
  run.at_boundary = [&](int rank, int64_t, Scheme& scheme, Replica&) {
    states[rank] = CapturedState(scheme);
  };
  train_toy(workers, run);
  return states;
}

inline Matrix range_of(const std::vector<CapturedState>& states,
                       const std::string& name) {
  Matrix all;
  for (const CapturedState& state : states) all.push_back(state[name]);
  return all;
}

// The bytes of a message to a neighbour.
inline int64_t toy_message_bytes(const ToyRun& run) {
  const ToyModel model = model_of(run);
  if (is_compressed(run.sync.scheme))
    return message_bytes(run.sync.compress, model.parameters());
  return model.parameters().num_elems() *
         (run.sync.wire == Wire::kBf16 ? 2 : 4);
}

}  // namespace syncopate::test
