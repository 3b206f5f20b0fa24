// The build without CUDA.
#include "base/error.h"
#include "device/device.h"

namespace syncopate {

int cuda_device_count() {
  return 0;
}

std::unique_ptr<Device> make_cuda_device(int) {
  fail(ExitCode::kBadInput,
       "run.device: cuda: this executable was built without CUDA (use "
       "run.device = cpu, or the release preset where nvcc is found)");
}

}  // namespace syncopate
