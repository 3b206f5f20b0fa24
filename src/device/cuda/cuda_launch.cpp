#include "device/cuda/cuda_launch.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"

namespace syncopate {
namespace {

// A kernel must request more dynamic shared memory than this explicitly.
constexpr int64_t kOpenSharedBytes = 48 * 1024;

std::string name_of(const void* kernel) {
  const char* symbol = nullptr;
  if (cudaFuncGetName(&symbol, kernel) != cudaSuccess || symbol == nullptr)
    return "a kernel without a name";
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr), &std::free);
  return name ? name.get() : symbol;
}

}  // namespace

void launch_kernel(const void* kernel,
                   dim3 grid,
                   dim3 block,
                   int64_t shared_bytes,
                   Stream& stream,
                   void** arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaStream_t queue = cuda_stream(stream);
  cudaError_t error = cudaSuccess;
  if (shared_bytes > kOpenSharedBytes)
    error = cudaFuncSetAttribute(kernel,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
  if (error == cudaSuccess)
    error = cudaLaunchKernel(kernel, grid, block, arguments,
                             static_cast<size_t>(shared_bytes), queue);
  if (error == cudaSuccess) return;
  cuda_failed(error, fmt::format("launch of {} with grid ({}, {}, {}), block "
                                 "({}, {}, {}), {} bytes of shared memory",
                                 name_of(kernel), grid.x, grid.y, grid.z,
                                 block.x, block.y, block.z, shared_bytes));
}

}  // namespace syncopate
