// The communicators of the process, made once with the session, and what came
// through them that nobody has received yet: a peer may be in the next run
// already.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "comm/mpi/operation.h"

namespace syncopate::mpi {

struct Communicators {
  int rank = 0, size = 1;
  MPI_Comm messages = MPI_COMM_NULL;  // isend, irecv, recv_any
  MPI_Comm internal = MPI_COMM_NULL;  // this folder's own messages
  // For MPI_Iallreduce, by members. The world's is made with the session.
  std::map<std::vector<int>, MPI_Comm> native;
  std::deque<std::unique_ptr<Stray>> strays;
};

}  // namespace syncopate::mpi
