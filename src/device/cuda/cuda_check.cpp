#include "device/cuda/cuda_check.h"

#include "base/error.h"

namespace syncopate {

void cuda_failed(cudaError_t error, const std::string& call) {
  int device = -1;
  cudaGetDevice(&device);  // best effort: it may fail too
  cudaGetLastError();      // clears the error so that it is not reported again
  fail(ExitCode::kInternal, "device {}: {}: {} ({})", device, call,
       cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace syncopate
