// Converts filters between their canonical order and that of convolutions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate::cuda {

struct FilterSize {
  int64_t K, C, R, S;
  int64_t packed_C = C;  // of the convolution's order, at least C
  int64_t packed_elems() const { return K * packed_C * R * S; }
};

// krsc[k,r,s,c] = w[k,c,r,s], as `dtype` (fp32 or bf16), or 0 if c >= C.
void pack_filters(Stream& stream,
                  void* krsc,      // (K, R, S, packed_C) dtype
                  const float* w,  // (K, C, R, S)
                  const FilterSize& size,
                  DType dtype);

// dw[k,c,r,s] += krsc[k,r,s,c] for c < C
void accumulate_filters(Stream& stream,
                        float* dw,         // (K, C, R, S)
                        const void* krsc,  // (K, R, S, packed_C) dtype
                        const FilterSize& size,
                        DType dtype);

}  // namespace syncopate::cuda
