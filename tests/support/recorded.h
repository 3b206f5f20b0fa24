// Runs work from a recording if the device can record it, as a training step
// does; on the CPU the work runs directly.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "support/test_device.h"

namespace syncopate::test {

// Returns a function that does `work`. The work runs once before it is
// recorded, so that it has its scratch memory.
inline std::function<void()> recorded(TestContext& test,
                                      const std::function<void()>& work) {
  if (test.device.kind() == DeviceKind::kCpu) return work;
  work();
  test.stream->synchronize();
  test.stream->begin_capture();
  work();
  const std::shared_ptr<Graph> graph = test.stream->end_capture();
  return [graph, &test] { graph->launch(*test.stream); };
}

}  // namespace syncopate::test
