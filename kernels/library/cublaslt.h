// cuBLASLt, loaded on first use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include "ops/context.h"

namespace syncopate::cuda {

// The functions in use, under their names without "cublasLt".
struct CublasLt {
  decltype(&cublasLtGetStatusString) GetStatusString;
  decltype(&cublasLtGetVersion) GetVersion;
  decltype(&cublasLtCreate) Create;
  decltype(&cublasLtDestroy) Destroy;
  decltype(&cublasLtMatmul) Matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) MatmulAlgoConfigGetAttribute;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy;
};
const CublasLt& cublaslt();

std::string cublaslt_version();  // of the one in use: "cuBLASLt 13.1.0"

// Throws Error(kInternal) with the call and cuBLAS's message.
void check_cublaslt(cublasStatus_t status, const char* call);

// A context's own handle (Context::cache).
class CublasLtHandle {
 public:
  CublasLtHandle() = default;
  ~CublasLtHandle();
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;

  cublasLtHandle_t of(Context& context);

 private:
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace syncopate::cuda
