// The bias gradient of a dense layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate::cuda {

// db[k] += sum_n dy[n,k]
void accumulate_bias(Stream& stream,
                     float* db,        // (K)
                     const float* dy,  // (N, K)
                     int64_t N,
                     int64_t K);

}  // namespace syncopate::cuda
