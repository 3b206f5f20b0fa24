// Whole training steps as the trainer runs them, timed: without rows,
// agreement, evaluation and checkpoints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "app/device_transport.h"
#include "app/engine.h"
#include "app/session.h"
#include "sync/bucket.h"
#include "sync/scheme.h"

namespace syncopate {

// One worker's figures, a value a step. On a GPU the host runs ahead: data,
// compute and update are what the host does, and step is a mean over some.
struct StepTimes {
  std::vector<double> data_s, compute_s, update_s, step_s;
};

class StepBench {
 public:
  StepBench(Session& session, Engine& engine, Endpoint& endpoint);
  // At least 20 steps, and at least 10 s or 200 steps. Collective.
  StepTimes run();

 private:
  void one_step(StepTimes& times);
  std::vector<PendingSums> forward_backward();

  Session& session_;
  Engine& engine_;
  Endpoint& endpoint_;
  Replica replica_;
  Schedule schedule_;
  DeviceTransport transport_;
  Bucketer bucketer_;
  std::unique_ptr<Scheme> scheme_;
  std::unique_ptr<Feed> feed_;
  std::vector<int64_t> segment_offsets_;
  std::vector<Bucket> ready_;         // in one process: after backward
  std::vector<PendingSums> pending_;  // of the step before
};

}  // namespace syncopate
