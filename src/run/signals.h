// Signals become a request that the training loop sees at its next step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate {

// What a worker was asked; greater wins when workers agree.
enum class StopRequest : int {
  kNone = 0,
  kSave = 1,       // a file SAVE in the run's folder: checkpoint, and go on
  kTimeLimit = 2,  // run.time_limit_s or the end of the job is near
  kSignal = 3,     // SIGTERM, SIGUSR1, SIGHUP: checkpoint, exit 75
  kStopFile = 4,   // a file STOP in the run's folder: checkpoint, exit 75
  kInterrupt = 5,  // SIGINT: checkpoint, exit 130
};
// By what a run was stopped: "signal", "time limit", "STOP file"; "none" for
// what stops no run.
const char* name_of(StopRequest request);

// After MPI_Init: some MPI libraries install handlers of their own. A second
// SIGINT ends the process at once with 130. SIGHUP stays ignored where the
// process was started so.
void install_signal_handlers();
StopRequest requested_stop();

}  // namespace syncopate
