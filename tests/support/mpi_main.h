// What a test of mpi/ gets from its main(): the session of MPI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/world.h"

namespace syncopate {

// Every rank runs every test, in the same order. Use EXPECT, not ASSERT,
// before a collective: a rank that leaves early leaves the others waiting.
MpiSession& mpi_session();

}  // namespace syncopate
