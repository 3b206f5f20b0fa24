// Whether the MPI library is GPU-aware.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate::mpi {

// Whether MPI's calls take addresses of CUDA device memory now, as the library
// says: built for it, and not turned off (MPIR_CVAR_ENABLE_GPU=0). Call between
// MPI_Init and MPI_Finalize.
bool takes_cuda_memory();

}  // namespace syncopate::mpi
