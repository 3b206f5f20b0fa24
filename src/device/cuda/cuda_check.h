// CUDA runtime errors as Error(kInternal) with call, CUDA's text and device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <cuda_runtime_api.h>

namespace syncopate {

// "device 0: cudaMemcpyAsync: an illegal memory access was encountered
// (cudaErrorIllegalAddress)".
[[noreturn]] void cuda_failed(cudaError_t error, const std::string& call);

inline void check_cuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) cuda_failed(error, call);
}

}  // namespace syncopate
