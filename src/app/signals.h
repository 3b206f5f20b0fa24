// Signals become a request that the training loop sees at its next step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate {

// What a worker was asked; greater wins when workers agree.
enum class StopRequest : int {
  kNone = 0,
  kTimeLimit = 1,  // run.time_limit_s is near
  kSignal = 2,     // SIGTERM, SIGUSR1, SIGHUP: checkpoint, exit 75
  kInterrupt = 3,  // SIGINT: checkpoint, exit 130
};

// After MPI_Init: some MPI libraries install handlers of their own. A second
// SIGINT ends the process at once with 130.
void install_signal_handlers();
StopRequest requested_stop();

}  // namespace syncopate
