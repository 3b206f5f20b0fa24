// Keeps NaN and infinity of one worker's gradients from the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "app/engine.h"
#include "sync/bucket.h"

namespace syncopate {

class GradientGuard {
 public:
  GradientGuard(Engine& engine, Replica& replica);

  // A step begins; its buckets follow in the order of backward.
  void start();
  // The bucket is about to be sent. If it, or one before it in this step, is
  // not finite, all of it becomes zero. Nothing waits for the device.
  void check(const Bucket& bucket);
  // After a step (on a GPU: when the device is known to be done with it): the
  // first tensor, in the order of backward, whose gradient was not finite.
  std::optional<std::string> settle();

 private:
  Engine& engine_;
  Replica& replica_;
};

}  // namespace syncopate
