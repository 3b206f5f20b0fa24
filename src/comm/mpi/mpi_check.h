// Every return code of MPI becomes an Error: with MPI_ERRORS_RETURN set, this
// is what keeps them from being lost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>

namespace syncopate {

std::string mpi_error_text(int code);

// Error(kPeerLost): a library that worked so far fails when a peer or the
// network does.
void check_mpi(int code, const char* call);

}  // namespace syncopate

#define CHECK_MPI(call) ::syncopate::check_mpi((call), #call)
