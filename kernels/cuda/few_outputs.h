// Dense layers with few rows or few outputs, whose products are too small for
// cuBLASLt's tiles. cuBLASLt also refuses some of them if there is a bias.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate::cuda {

inline constexpr int64_t kFewOutputs = 8;

// For N rows and K outputs.
inline bool has_few_outputs(int64_t N, int64_t K) {
  return N <= kFewOutputs || K <= kFewOutputs;
}

// As linear_forward and linear_backward of ops/matmul.h, for any N and K: sums
// are formed in fp32, in an order that N, D and K alone determine, and w is
// rounded to the dtype of x.
void few_outputs_forward(Context& context,
                         Tensor y,        // (N, K)
                         ConstTensor x,   // (N, P), dtype of y
                         ConstTensor w,   // (K, D)
                         ConstTensor b);  // (K) or null
void few_outputs_backward(Context& context,
                          Tensor dx,       // (N, P) or null, dtype of dy
                          Tensor dw,       // (K, D) or null, added to
                          Tensor db,       // (K) or null, added to
                          ConstTensor dy,  // (N, K)
                          ConstTensor x,   // (N, P), dtype of dy
                          ConstTensor w);  // (K, D)

}  // namespace syncopate::cuda
