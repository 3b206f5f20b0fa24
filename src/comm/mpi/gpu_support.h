// Whether the MPI library is GPU-aware.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate::mpi {

// Which calls of MPI take addresses of CUDA device memory.
struct CudaSupport {
  bool messages = false;  // isend, irecv
  bool sums = false;      // MPI_Iallreduce
};

// As the library says now: built for it, and not turned off
// (MPIR_CVAR_ENABLE_GPU=0). Call between MPI_Init and MPI_Finalize.
CudaSupport cuda_support();

}  // namespace syncopate::mpi
