// What concerns this process as a whole: who started it, and what its libraries
// read from the environment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate {

// Returns whether a debugger or a tracer controls this process.
bool is_traced();

// Sets what libraries read from the environment when they are loaded, unless it
// is set already, and executes the program once more: same process id,
// descriptors and words. Call it first in main(), before MPI is initialised.
// Returns if nothing is to be set, or under a debugger or valgrind, which
// follow the program that they started.
//   GOMP_SPINCOUNT, unless OMP_WAIT_POLICY is set: how long OpenMP threads spin
//     while they wait. On cores that other programs use as well, libgomp's
//     default costs nine tenths of the speed (tests/bench/spinning.sh).
//   UCX_HANDLE_ERRORS=none, under MPI: if a peer dies, UCX prints no backtrace
//     of this process, which the watchdog's line would follow.
void set_up_libraries(char** argv, bool is_under_mpi);

}  // namespace syncopate
