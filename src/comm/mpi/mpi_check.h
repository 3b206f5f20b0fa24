// Turns every MPI return code into an Error, because MPI_ERRORS_RETURN is set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>

namespace syncopate {

std::string mpi_error_text(int code);

// Throws Error(kPeerLost): a working library fails when a peer or the network
// does.
void check_mpi(int code, const char* call);

}  // namespace syncopate

#define CHECK_MPI(call) ::syncopate::check_mpi((call), #call)
