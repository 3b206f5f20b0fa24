// A scratch directory and a small state of every type, for checkpoint tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "comm/world.h"
#include "support/scratch_folder.h"

namespace syncopate {

// Values are a function of (seed, rank), so that what was restored is known.
struct State {
  std::vector<float> weights, empty;
  std::vector<int64_t> counters;
  std::vector<double> clocks;
  std::vector<float> residual;  // this worker's own
  std::vector<int64_t> position;

  explicit State(int seed = 0, int rank = 0)
      : weights(1000), counters(3), clocks(2), residual(500), position(2) {
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<float>(i) * 0.25f + static_cast<float>(seed);
    for (size_t i = 0; i < counters.size(); ++i)
      counters[i] = (int64_t{1} << 60) + seed + static_cast<int64_t>(i);
    for (size_t i = 0; i < clocks.size(); ++i)
      clocks[i] = 1.0 / (3.0 + seed + static_cast<double>(i));
    for (size_t i = 0; i < residual.size(); ++i)
      residual[i] =
          static_cast<float>(seed * 10 + rank) - static_cast<float>(i);
    position = {seed, rank};
  }
  bool operator==(const State&) const = default;

  void visit(StateVisitor& visitor) {
    visit_shared(visitor);
    visitor.visit(Owner::kWorker, "residual", std::span<float>(residual));
    visitor.visit(Owner::kWorker, "sampler/position",
                  std::span<int64_t>(position));
  }
  void visit_shared(StateVisitor& visitor) {
    visitor.visit(Owner::kShared, "model/weights", std::span<float>(weights));
    visitor.visit(Owner::kShared, "model/none", std::span<float>(empty));
    visitor.visit(Owner::kShared, "counters", std::span<int64_t>(counters));
    visitor.visit(Owner::kShared, "clocks", std::span<double>(clocks));
  }
};

inline CheckpointFacts facts_of(int64_t step, int workers) {
  CheckpointFacts facts;
  facts.step = step;
  facts.worker_steps = step * workers;
  facts.workers = workers;
  facts.scheme = "bsp";
  facts.input = {{"run.seed", "1"}, {"run.name", "näme \"quoted\"\n"}};
  facts.extra = {{"version", "0.1.0"}};
  return facts;
}

// Runs `body` as each of the workers of a world in this process.
inline void in_world(int workers, const std::function<void(Endpoint&)>& body) {
  make_inproc_world(workers, NetworkCost{})->run(body);
}

// All workers save State(step, rank).
inline void save(const fs::path& directory,
                 int step,
                 int workers = 1,
                 int keep = 2) {
  in_world(workers, [&](Endpoint& endpoint) {
    State state(step, endpoint.rank());
    save_checkpoint(
        endpoint, directory, facts_of(step, workers),
        [&](StateVisitor& visitor) { state.visit(visitor); }, keep);
  });
}

// The message of the error that `act` throws, which must have code `code`; ""
// if it throws none.
inline std::string error_of(ExitCode code, const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code))
        << error.what();
    return error.what();
  }
  return "";
}

inline std::string bytes_of(const fs::path& path) {
  return read_file(path);
}

inline void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace syncopate
