// Functions that a GPU approximates in one instruction; subnormal arguments and
// results are zero. The tests' emulator has its own file of this name (see
// platform.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda/platform.h>

namespace syncopate::cuda {

// Relative error at most 2^-22 (PTX: ex2.approx, rcp.approx).
__device__ __forceinline__ float approximate_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float approximate_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The lesser one; NaN if one is NaN.
__device__ __forceinline__ float lesser_or_nan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

}  // namespace syncopate::cuda
