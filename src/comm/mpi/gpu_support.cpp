// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/gpu_support.h"

#include <mpi.h>

// Extensions that a library may have: MPICH both (pull request 4741), Open MPI
// and MVAPICH the second.
extern "C" {
[[gnu::weak]] int MPIX_GPU_query_support(int gpu_type, int* is_supported);
[[gnu::weak]] int MPIX_Query_cuda_support(void);
}

namespace syncopate::mpi {

// MPICH before 4.0 without GPUs fails an assertion in the second. Open MPI,
// which has only that, adds in host memory in its non-blocking reductions (its
// manual, "CUDA", lists them as not supported).
CudaSupport cuda_support() {
  constexpr int kCuda = 0;  // MPIX_GPU_SUPPORT_CUDA
  int is_supported = 0;
  if (MPIX_GPU_query_support != nullptr &&
      MPIX_GPU_query_support(kCuda, &is_supported) == MPI_SUCCESS)
    return {.messages = is_supported != 0, .sums = is_supported != 0};
  return {.messages = MPIX_Query_cuda_support != nullptr &&
                      MPIX_Query_cuda_support() == 1};
}

}  // namespace syncopate::mpi
