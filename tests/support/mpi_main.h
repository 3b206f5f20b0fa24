// The MPI session that main() provides to the tests in mpi/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/world.h"

namespace syncopate {

// Every rank runs every test, in the same order. Use EXPECT, not ASSERT, before
// a collective: a rank that leaves early deadlocks the others.
MpiSession& mpi_session();

}  // namespace syncopate
