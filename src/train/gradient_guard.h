// Keeps NaN and infinity of one worker's gradients from the others.
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

  // A step of the worker begins, before its forward.
  void start(int64_t step);
  // Gradients that are about to be sent; calls of a step come with falling
  // offsets. If they, or any of the step before them, are not finite, all of
  // them become zero. Nothing waits for the device.
  void check(int64_t offset, int64_t elems);
  // The step's last gradients were checked. Under run.on_nonfinite = skip the
  // running statistics are those of before the step if it had a finding.
  void finish();

  // What backward met first that is not finite.
  struct Finding {
    int64_t step;
    int64_t offset;  // in the range of gradients
  };
  // The next finding of a step that is looked at: of all finished ones, or
  // where the host runs ahead and not `all`, of those but the last, which the
  // device is done with. Called until there is none.
  std::optional<Finding> next_finding(bool all);

 private:
  // What was found in a step, on its way from the device.
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
