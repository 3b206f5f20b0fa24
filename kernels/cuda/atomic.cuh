// Atomic additions to, and maxima in, memory that threads share. The tests'
// emulator has its own file of this name (see platform.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/platform.h"

namespace syncopate::cuda {

// *to += value. Sums of integers do not depend on the order.
__device__ __forceinline__ void add_atomically(uint32_t* to, uint32_t value) {
  atomicAdd(to, value);
}

// *to = max(*to, value), which does not depend on the order either.
__device__ __forceinline__ void raise_atomically(int64_t* to, int64_t value) {
  atomicMax(reinterpret_cast<long long*>(to), static_cast<long long>(value));
}

}  // namespace syncopate::cuda
