// Records in a trace what a worker computes when, in wall time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "comm/trace.h"
#include "train/engine.h"
#include "train/worker_step.h"

namespace syncopate {

// Marks the parts of a step by events on the device's stream. On a GPU they are
// read one step later, so that the host never waits for them.
class ComputeTrace final : public StepListener {
 public:
  ComputeTrace(const Engine& engine, WorkerTrace& trace)
      : engine_(engine), trace_(trace) {}

  void step_begins() override;
  void batch_arrives() override;
  void backward_ends(const PendingSums& sums) override;
  void step_ends() override;
  void finish();  // the device is idle: records what is left

 private:
  struct Part {  // an accumulated batch
    std::shared_ptr<Event> has_batch, has_gradients;
    PendingSums sums;
  };
  struct Marks {
    int64_t step = 0;
    std::shared_ptr<Event> begin, end;
    std::vector<Part> parts;
  };
  void record(const Marks& marks);
  bool is_on() const { return !steps_.empty() && steps_.back().end == nullptr; }

  const Engine& engine_;
  WorkerTrace& trace_;
  std::vector<Marks> steps_;
};

}  // namespace syncopate
