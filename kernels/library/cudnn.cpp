#include "library/cudnn.h"

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/shared_library.h"

namespace syncopate::cuda {
namespace {

Cudnn load_cudnn() {
  // cuDNN compiles some engines at run time and loads the compiler by its bare
  // name, which succeeds from any folder if the compiler is already loaded.
  open_if_there(cuda_sonames("libnvrtc"));
  const SharedLibrary library("cuDNN 9", {"libcudnn.so.9"});
  Cudnn functions;
  library.bind(functions.GetVersion, "cudnnGetVersion");
  library.bind(functions.GetErrorString, "cudnnGetErrorString");
  library.bind(functions.GetLastErrorString, "cudnnGetLastErrorString");
  library.bind(functions.Create, "cudnnCreate");
  library.bind(functions.Destroy, "cudnnDestroy");
  library.bind(functions.SetStream, "cudnnSetStream");
  library.bind(functions.BackendCreateDescriptor,
               "cudnnBackendCreateDescriptor");
  library.bind(functions.BackendDestroyDescriptor,
               "cudnnBackendDestroyDescriptor");
  library.bind(functions.BackendFinalize, "cudnnBackendFinalize");
  library.bind(functions.BackendSetAttribute, "cudnnBackendSetAttribute");
  library.bind(functions.BackendGetAttribute, "cudnnBackendGetAttribute");
  library.bind(functions.BackendExecute, "cudnnBackendExecute");
  return functions;
}

}  // namespace

const Cudnn& cudnn() {
  static const Cudnn functions = load_cudnn();
  return functions;
}

std::string cudnn_version() {
  const size_t version = cudnn().GetVersion();  // 9.19.0 is 91900
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100,
                     version % 100);
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[1024] = "";
  cudnn().GetLastErrorString(detail, sizeof detail);
  fail(ExitCode::kInternal, "{}: {}: {} {}", cudnn_version(), call,
       cudnn().GetErrorString(status), detail);
}

CudnnHandle::~CudnnHandle() {
  if (handle_ != nullptr) cudnn().Destroy(handle_);
}

cudnnHandle_t CudnnHandle::of(Context& context) {
  cudaStream_t stream = cuda_stream(context.stream());
  if (handle_ == nullptr) {
    check_cudnn(cudnn().Create(&handle_), "cudnnCreate");
    check_cudnn(cudnn().SetStream(handle_, stream), "cudnnSetStream");
  }
  return handle_;
}

}  // namespace syncopate::cuda
