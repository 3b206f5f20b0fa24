// The communicators of the process, created once with the session, and messages
// that arrived on them but were not received yet: a peer may already be in the
// next run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "comm/mpi/gpu_support.h"
#include "comm/mpi/operation.h"

namespace syncopate::mpi {

struct Communicators {
  int rank = 0, size = 1;
  std::vector<int> hosts;  // by rank: Endpoint::host_of()
  CudaSupport device_memory;
  MPI_Comm messages = MPI_COMM_NULL;  // isend, irecv, recv_any
  MPI_Comm internal = MPI_COMM_NULL;  // this folder's own messages
  // For MPI_Iallreduce, by members. The world's is created with the session.
  std::map<Ranks, MPI_Comm> native;
  std::deque<std::unique_ptr<Stray>> strays;
};

}  // namespace syncopate::mpi
