#include <cuda_runtime_api.h>

#include "base/error.h"
#include "library/cublaslt.h"
#include "library/cudnn.h"
#include "ops/library.h"

namespace syncopate {
namespace {

// 13010 is 13.1.
std::string cuda_version(int code) {
  return fmt::format("{}.{}", code / 1000, code % 1000 / 10);
}

// Returns 0 if there is no driver.
int driver_code() {
  int code = 0;
  return cudaDriverGetVersion(&code) == cudaSuccess ? code : 0;
}

LibraryVersion driver_version() {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);  // a constant of the static library
  const int driver = driver_code();
  if (driver == 0)
    return {"driver",
            "there is none: install NVIDIA's, or start on a node "
            "that has it"};
  // Code for a version runs under drivers of that major version or later.
  if (driver / 1000 < runtime / 1000)
    return {"driver",
            fmt::format("is for CUDA {}, this executable needs {}: a newer "
                        "driver, or a build with an older CUDA",
                        cuda_version(driver), cuda_version(runtime))};
  return {fmt::format("driver for CUDA {}, executable built for CUDA {}",
                      cuda_version(driver), cuda_version(runtime)),
          ""};
}

LibraryVersion version_or_obstacle(const char* name, std::string (*version)()) {
  try {
    return {version(), ""};
  } catch (const Error& error) {
    return {name, error.what()};
  }
}

cudaError_t count_devices(int& count) {
  count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return error;
  cudaGetLastError();  // keeps it from surfacing in the next call
  count = 0;           // its value is unspecified after an error
  return error;
}

}  // namespace

std::vector<LibraryVersion> cuda_library_versions() {
  return {driver_version(), version_or_obstacle("cuDNN", cuda::cudnn_version),
          version_or_obstacle("cuBLASLt", cuda::cublaslt_version)};
}

std::vector<std::string> cuda_device_texts() {
  int count = 0;
  count_devices(count);
  std::vector<std::string> texts;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) {
      texts.push_back(cudaGetErrorString(cudaGetLastError()));
      continue;
    }
    texts.push_back(fmt::format(
        "{}, {:.1f} GiB, compute capability {}.{}", properties.name,
        static_cast<double>(properties.totalGlobalMem) / (int64_t{1} << 30),
        properties.major, properties.minor));
  }
  return texts;
}

std::string cuda_devices_missing() {
  int count = 0;
  const cudaError_t error = count_devices(count);
  if (count > 0) return "";
  if (driver_code() == 0) return "no NVIDIA driver here";
  return error == cudaSuccess ? "no device is visible"
                              : cudaGetErrorString(error);
}

}  // namespace syncopate
