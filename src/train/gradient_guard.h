// Keeps NaN and infinity in one worker's gradients from reaching the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "train/engine.h"

namespace syncopate {

class GradientGuard {
 public:
  GradientGuard(Engine& engine, Replica& replica);

  // Call at the beginning of the worker's step, before its forward pass.
  void start(int64_t step);
  // Checks gradients that are about to be sent; within a step, call with
  // falling offsets. If these or earlier ones of the step are not finite, sets
  // these to zero. Does not wait for the device.
  void check(int64_t offset, int64_t elems);
  // Call when the step's last gradients have been checked. With
  // run.on_nonfinite = skip, restores the running statistics from before the
  // step if there was a finding.
  void finish();

  // The first non-finite gradient in the order of the backward pass.
  struct Finding {
    int64_t step;
    int64_t offset;  // in the range of gradients
  };
  // Returns the next finding of a finished step. If the host runs ahead and
  // `all` is false, the last step is left out, because the device may still
  // work on it. Call until it returns nullopt.
  std::optional<Finding> next_finding(bool all);

 private:
  // The finding of a step, on its way from the device.
  struct Arrival {
    int64_t step;
    HostBuffer offset;
    std::unique_ptr<Event> event;
  };
  Arrival unused_arrival();

  Engine& engine_;
  Replica& replica_;
  DeviceVector<int64_t> found_;  // one
  HostBuffer nothing_;           // what it is before a step
  DeviceVector<float> saved_;    // buffers before the step; skip
  int64_t step_ = 0;
  std::deque<Arrival> arriving_;
  std::vector<Arrival> unused_;
};

}  // namespace syncopate
