// Helpers of the tests of Sync-Switch: toy runs in phases, and their records.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/rng.h"
#include "unit/sync/toy_run.h"

namespace syncopate::switch_toy {

using test::ToyRun;

inline ToyRun switching(std::vector<std::string> order,
                        std::vector<double> fractions) {
  ToyRun run = test::run_of("sync_switch");
  run.sync.sync_switch.order = std::move(order);
  run.sync.sync_switch.fractions = std::move(fractions);
  run.sync.sync_switch.lr_rule = LrRule::kNone;
  return run;
}

inline ToyRun plain(ToyRun run, const std::string& scheme) {
  run.sync.scheme = scheme;
  return run;
}

// A run, and a record of each of its steps by worker.
struct Seen {
  test::ToyResult result;
  std::vector<std::vector<StepPlan>> plans;
  std::vector<std::vector<std::vector<double>>> series;
  Seen(int workers, ToyRun run, const NetworkCost& cost = {})
      : plans(workers), series(workers) {
    run.after_step = [this](int rank, const StepPlan& plan, Scheme& scheme,
                            Replica&) {
      plans[rank].push_back(plan);
      series[rank].push_back(scheme.take_series());
    };
    result = test::train_toy(workers, run, cost);
  }
  enum Column { kPhase, kAtWork, kActive, kDetections };
  // worker_steps of all workers during phase `at_work`.
  int64_t work(double phase, double at_work) const {
    int64_t steps = 0;
    for (const auto& worker : series)
      for (const auto& row : worker)
        steps += row[kPhase] == phase && row[kAtWork] == at_work ? 1 : 0;
    return steps;
  }
};

// Worker 2 of 4 is slow in its steps 3 to 10 (the harness includes the current
// step).
inline double step_of_a_straggler(int rank, int64_t step) {
  return rank == 2 && step >= 4 && step < 12 ? 3 : 1;
}

inline ToyRun with_policy(SwitchPolicy policy) {
  ToyRun run = switching({"10"}, {0.5, 0.5});
  run.steps = 40;
  run.optimizer.lr = 0.02;
  run.optimizer.momentum = 0.5;
  run.sync.sync_switch.policy = policy;
  run.sync.sync_switch.window = 1;
  run.sync.sync_switch.consecutive = 3;
  run.step_time = step_of_a_straggler;
  return run;
}

// Steps of `step_s` with normal noise, drawn by seed, worker and step.
inline ToyRun noisy(SwitchPolicy policy,
                    double step_s,
                    double noise,
                    uint64_t seed) {
  ToyRun run = switching({"10"}, {0.9, 0.1});
  run.sync.sync_switch.policy = policy;
  run.tensors = {8};
  run.num_buffers = 0;
  run.optimizer.lr = 0.01;
  run.step_time = [=](int rank, int64_t step) {
    Rng rng(seed, Purpose::kTest, static_cast<uint64_t>(rank),
            static_cast<uint64_t>(step));
    return step_s * std::max(0.1, 1 + noise * rng.normal());
  };
  return run;
}

}  // namespace syncopate::switch_toy
