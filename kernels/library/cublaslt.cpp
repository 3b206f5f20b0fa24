#include "library/cublaslt.h"

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/shared_library.h"

namespace syncopate::cuda {
namespace {

// The structures passed are opaque or unchanged between 12 and 13.
CublasLt load_cublaslt() {
  const SharedLibrary library("cuBLASLt 13 or 12", cuda_sonames("libcublasLt"));
  CublasLt functions;
  library.bind(functions.GetStatusString, "cublasLtGetStatusString");
  library.bind(functions.GetVersion, "cublasLtGetVersion");
  library.bind(functions.Create, "cublasLtCreate");
  library.bind(functions.Destroy, "cublasLtDestroy");
  library.bind(functions.Matmul, "cublasLtMatmul");
  library.bind(functions.MatmulAlgoGetHeuristic,
               "cublasLtMatmulAlgoGetHeuristic");
  library.bind(functions.MatmulAlgoConfigGetAttribute,
               "cublasLtMatmulAlgoConfigGetAttribute");
  library.bind(functions.MatmulDescCreate, "cublasLtMatmulDescCreate");
  library.bind(functions.MatmulDescDestroy, "cublasLtMatmulDescDestroy");
  library.bind(functions.MatmulDescSetAttribute,
               "cublasLtMatmulDescSetAttribute");
  library.bind(functions.MatmulPreferenceCreate,
               "cublasLtMatmulPreferenceCreate");
  library.bind(functions.MatmulPreferenceDestroy,
               "cublasLtMatmulPreferenceDestroy");
  library.bind(functions.MatmulPreferenceSetAttribute,
               "cublasLtMatmulPreferenceSetAttribute");
  library.bind(functions.MatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
  library.bind(functions.MatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
  return functions;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = load_cublaslt();
  return functions;
}

std::string cublaslt_version() {
  const size_t version = cublaslt().GetVersion();  // 13.1.0 is 130100
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100,
                     version % 100);
}

void check_cublaslt(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ExitCode::kInternal, "{}: {}: {}", cublaslt_version(), call,
       cublaslt().GetStatusString(status));
}

CublasLtHandle::~CublasLtHandle() {
  if (handle_ != nullptr) cublaslt().Destroy(handle_);
}

cublasLtHandle_t CublasLtHandle::of(Context& context) {
  cuda_stream(context.stream());  // makes its device current, to which the
                                  // handle belongs
  if (handle_ == nullptr)
    check_cublaslt(cublaslt().Create(&handle_), "cublasLtCreate");
  return handle_;
}

}  // namespace syncopate::cuda
