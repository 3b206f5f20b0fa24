// The bias gradient of a dense layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate::cuda {

// db[k] += sum_n dy[n,k]. Uses scratch 2.
void accumulate_bias(Context& context,
                     float* db,       // (K)
                     const void* dy,  // (N, K) dtype, fp32 or bf16
                     DType dtype,
                     int64_t N,
                     int64_t K);

// to[i] += the sum of parts[., i], added in order.
void add_parts(Context& context,
               float* to,           // (elems)
               const float* parts,  // (pieces, elems)
               int64_t pieces,
               int64_t elems);

}  // namespace syncopate::cuda
