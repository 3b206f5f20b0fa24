// Prefix sums over the threads of a warp or block, and counts of lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/platform.h"
#include "cuda/reduce.cuh"

namespace syncopate::cuda {

// Inclusive prefix sum over the warp. All 32 lanes must call.
template <typename T>
__device__ __forceinline__ T warp_scan(T value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const T below =
        __shfl_sync(kAllLanes, value, lane < distance ? 0 : lane - distance);
    if (lane >= distance) value += below;
  }
  return value;
}

// Exclusive prefix sum over the block. All of its threads must call. `shared`:
// one T per warp, free again on return.
template <typename T>
__device__ __forceinline__ T block_scan(T value, T* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const T sum = warp_scan(value);
  if (threadIdx.x % kWarpSize == kWarpSize - 1) shared[warp] = sum;
  __syncthreads();
  T before = sum - value;
  for (int other = 0; other < warp; ++other) before += shared[other];
  __syncthreads();
  return before;
}

// Returns how many bits are set.
__device__ __forceinline__ int count_bits(uint32_t bits) {
  bits -= (bits >> 1) & 0x55555555;
  bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333);
  return static_cast<int>((((bits + (bits >> 4)) & 0x0F0F0F0F) * 0x01010101) >>
                          24);
}

}  // namespace syncopate::cuda
