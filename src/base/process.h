// What concerns this process as a whole: who started it, and how its threads
// wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate {

// Returns whether a debugger or a tracer controls this process.
bool is_traced();

// Limits how long OpenMP threads spin while they wait: on cores that other
// programs use as well, libgomp's default costs nine tenths of the speed
// (tests/bench/spinning.sh). libgomp reads its settings when it is loaded, so
// this sets GOMP_SPINCOUNT and executes the program once more: same process id,
// descriptors and words. Call it first in main(), before MPI is initialised.
// Returns, having done nothing, if GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, or
// under a debugger or valgrind, which follow the program that they started.
void arrange_openmp_waiting(char** argv);

}  // namespace syncopate
