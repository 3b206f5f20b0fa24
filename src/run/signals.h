// Turns signals into a request that the training loop sees at its next step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate {

// A request to a worker; the greatest wins when workers agree.
enum class StopRequest : int {
  kNone = 0,
  kSave = 1,       // a file SAVE in the run's folder: checkpoint, then continue
  kTimeLimit = 2,  // run.time_limit_s or the end of the job is near
  kSignal = 3,     // SIGTERM, SIGUSR1, SIGHUP: checkpoint, exit 75
  kStopFile = 4,   // a file STOP in the run's folder: checkpoint, exit 75
  kInterrupt = 5,  // SIGINT: checkpoint, exit 130
};
// Returns what stopped a run: "signal", "time limit" or "STOP file"; "none" for
// a request that does not stop it.
const char* name_of(StopRequest request);

// Until install_signal_handlers() or release_signals(), SIGUSR1, SIGTERM and
// SIGHUP wait. While MPI starts, its handlers would get them: some were lost,
// and others ended the process. Call before the process has threads.
void hold_signals();
// For a process that handles none.
void release_signals();
// Call after MPI_Init, because some MPI libraries install their own handlers. A
// second SIGINT ends the process at once with exit code 130. SIGHUP stays
// ignored if the process was started that way.
void install_signal_handlers();
// Makes the first SIGINT print at once, on stderr, what it leads to and that a
// second one ends the process: steps, evaluations and reading data may take
// long. For one process of a run.
void answer_interrupts();
StopRequest requested_stop();

}  // namespace syncopate
