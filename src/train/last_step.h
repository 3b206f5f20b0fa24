// A worker's last step, for the rows of results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace syncopate {

struct LastStep {
  double rate = 0;
  int64_t worker_steps = -1;  // of all, before it; -1: none in this process
  int64_t steps_done = 0;     // by this worker
};

}  // namespace syncopate
