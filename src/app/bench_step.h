// Whole training steps as the trainer runs them, timed: without rows,
// agreement, evaluation and checkpoints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "app/device_transport.h"
#include "app/engine.h"
#include "run/session.h"
#include "sync/bucket.h"
#include "sync/scheme.h"

namespace syncopate {

// One worker's figures, a value a step, but for step_s: on a GPU the host runs
// ahead, so that only some steps together have a time, and it is their mean.
// The others are the device's time: getting batches, forward with the loss,
// backward, and everything until the update is done.
struct StepTimes {
  std::vector<double> data_s, forward_s, backward_s, update_s, step_s;
  // Parameters, gradients, optimizer state and buffers.
  int64_t replica_bytes = 0;
};

class StepBench {
 public:
  StepBench(Session& session, Engine& engine, Endpoint& endpoint);
  // At least 20 steps, and at least 10 s or 200 steps. Collective.
  StepTimes run();

 private:
  // Where the device comes to, of one step; kept until it has.
  struct Part {
    std::unique_ptr<Event> has_batch, has_gradients;
    PendingSums sums;  // at the end of forward
  };
  struct Marks {
    std::unique_ptr<Event> begin, end;
    std::vector<Part> parts;  // by accumulated batch
  };
  Marks one_step(const Plan& plan);
  std::vector<Part> forward_backward();
  std::unique_ptr<Event> mark();

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
  std::vector<Bucket> ready_;  // in one process: after backward
};

}  // namespace syncopate
