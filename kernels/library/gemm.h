// Row-major fp32 matrix products by cuBLASLt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "library/cublaslt.h"

namespace syncopate::cuda {

enum class Transpose : uint8_t { kNo, kYes };
enum class Accumulate : uint8_t { kNo, kYes };

// c (M, N) = op(a) op(b) [+ c] [+ bias of each column]
//   op(a) is (M, D): `a` is (M, D), or (D, M) if transposed;
//   op(b) is (D, N): `b` is (D, N), or (N, D) if transposed.
// fp32 products and sums (no TF32). The algorithm is the first of cuBLASLt's
// heuristics that keeps the context's determinism.
struct Gemm {
  int64_t M, N, D;
  Transpose transpose_a, transpose_b;
  Accumulate accumulate;  // not together with a bias
};
void gemm(Context& context,
          float* c,
          const float* a,
          const float* b,
          const float* bias,  // (N) or null
          const Gemm& product);

}  // namespace syncopate::cuda
