// cuDNN 9's graph interface, loaded on first use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

#include <string>

#include "ops/context.h"

namespace syncopate::cuda {

// The functions in use, under their names without "cudnn".
struct Cudnn {
  decltype(&cudnnGetVersion) GetVersion;
  decltype(&cudnnGetErrorString) GetErrorString;
  decltype(&cudnnGetLastErrorString) GetLastErrorString;
  decltype(&cudnnCreate) Create;
  decltype(&cudnnDestroy) Destroy;
  decltype(&cudnnSetStream) SetStream;
  decltype(&cudnnBackendCreateDescriptor) BackendCreateDescriptor;
  decltype(&cudnnBackendDestroyDescriptor) BackendDestroyDescriptor;
  decltype(&cudnnBackendFinalize) BackendFinalize;
  decltype(&cudnnBackendSetAttribute) BackendSetAttribute;
  decltype(&cudnnBackendGetAttribute) BackendGetAttribute;
  decltype(&cudnnBackendExecute) BackendExecute;
};
const Cudnn& cudnn();

std::string cudnn_version();  // of the one in use: "cuDNN 9.19.0"

// Throws Error(kInternal) with the call and cuDNN's message.
void check_cudnn(cudnnStatus_t status, const char* call);

// A context's own handle (Context::cache), bound to its stream.
class CudnnHandle {
 public:
  CudnnHandle() = default;
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  cudnnHandle_t of(Context& context);

 private:
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace syncopate::cuda
