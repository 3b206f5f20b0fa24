// Row-major matrix products by cuBLASLt, in fp32 or of bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate::cuda {

inline bool is_gemm_aligned(const void* memory) {
  constexpr uintptr_t kAlignment = 16;  // bytes
  return reinterpret_cast<uintptr_t>(memory) % kAlignment == 0;
}

enum class Transpose : uint8_t { kNo, kYes };

// c (M, N) = op(a) op(b) [+ addend] [+ bias of each column]
//   op(a) is (M, D): `a` is (M, D), or (D, M) if transposed;
//   op(b) is (D, N): `b` is (D, N), or (N, D) if transposed.
// Sums are formed in fp32, and so are products of fp32 (no TF32). The algorithm
// is the first of cuBLASLt's heuristics that meets the context's determinism,
// or what the context's chooser takes (ops/plans.h). All matrices and the bias
// are aligned: tensor cores and wide loads need that. Returns false, and
// computes nothing, if the library has no algorithm for such a product.
struct Gemm {
  int64_t M, N, D;
  Transpose transpose_a, transpose_b;
  DType input = DType::kF32;   // of a and b
  DType output = DType::kF32;  // of c, addend and bias
};
[[nodiscard]] bool gemm(
    Context& context,
    void* c,
    const void* a,
    const void* b,
    const void* addend,  // (M, N), may be c; or null
    const void* bias,    // (N) or null; not together with an addend
    const Gemm& product);

}  // namespace syncopate::cuda
