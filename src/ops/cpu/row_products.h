// Products of many rows with one matrix by oneDNN. Primitives are created for a
// few row counts and kept, so any number of rows runs as fast as shapes known
// in advance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>

#include "ops/context.h"

namespace syncopate::cpu {

enum class MatrixForm : uint8_t { kInnerByColumns, kColumnsByInner };

// Describes the product y (N, columns) = x (N, inner) w [+ bias], N > 0.
struct RowProduct {
  DType dtype;  // of x and y
  int64_t inner, columns;
  MatrixForm form;  // layout of w
  bool has_bias;
  auto operator<=>(const RowProduct&) const = default;
};

// w is rounded to the type of x and y; sums are formed in fp32. Uses scratch 0
// and 1.
void multiply_rows(Context& context,
                   const RowProduct& product,
                   void* y,
                   const void* x,
                   const float* w,
                   const float* bias,  // (columns) or null
                   int64_t N);

// dw (K, D) += dy^T x with dy (N, K) and x (N, D) in bf16, summed in fp32. Uses
// scratch 0.
void accumulate_products(Context& context,
                         float* dw,
                         const Bf16* dy,
                         const Bf16* x,
                         int64_t N,
                         int64_t K,
                         int64_t D);

}  // namespace syncopate::cpu
