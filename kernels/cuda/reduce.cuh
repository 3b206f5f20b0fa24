// Reductions over the threads of a warp or block in a fixed order: equal values
// give equal bits. T is a number for warps and any copyable type otherwise;
// combine(a, b) takes the lower thread's value first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/platform.h"

namespace syncopate::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

struct Sum {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// Returns how many lanes share `items`: a power of two, one lane for each item
// if a warp has as many.
inline int lanes_for(int64_t items) {
  int lanes = 1;
  while (lanes < kWarpSize && lanes < items) lanes *= 2;
  return lanes;
}

// Every lane gets the result of its group of `lanes`, a power of two; all 32
// must call. `combine` must be bitwise commutative, as sums and maxima are.
template <typename T, typename Combine>
__device__ __forceinline__ T warp_reduce(T value,
                                         const Combine& combine,
                                         int lanes = kWarpSize) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}
template <typename T>
__device__ __forceinline__ T warp_sum(T value, int lanes = kWarpSize) {
  return warp_reduce(value, Sum(), lanes);
}

// The block is viewed as `rows` rows of `columns` threads (thread = row *
// columns + column; surplus threads must call too and contribute nothing). Row
// 0 gets each column's result; other rows get unspecified values. All threads
// of the block must call. `shared`: rows * columns values of T, free again on
// return.
template <typename T, typename Combine>
__device__ __forceinline__ T reduce_columns(T value,
                                            T* shared,
                                            int rows,
                                            int columns,
                                            const Combine& combine) {
  const int thread = static_cast<int>(threadIdx.x);
  while (rows > 1) {
    const int half = (rows + 1) / 2;
    if (thread >= half * columns && thread < rows * columns)
      shared[thread] = value;
    __syncthreads();
    if (thread + half * columns < rows * columns)
      value = combine(value, shared[thread + half * columns]);
    rows = half;  // written next: below what others may still be reading
  }
  __syncthreads();
  return value;
}

// Every thread gets the result; all threads of a block (one-dimensional, whole
// warps) must call. `shared`: one T per warp, free again on return.
template <typename T, typename Combine>
__device__ __forceinline__ T block_reduce(T value,
                                          T* shared,
                                          const Combine& combine) {
  value = warp_reduce(value, combine);
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  if (threadIdx.x % kWarpSize == 0) shared[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  T result = shared[0];
  for (int warp = 1; warp < warps; ++warp)
    result = combine(result, shared[warp]);
  __syncthreads();
  return result;
}
template <typename T>
__device__ __forceinline__ T block_sum(T value, T* shared) {
  return block_reduce(value, shared, Sum());
}

// Replaces each of the kCount values by its sum, with one barrier for all; all
// threads of a block (one-dimensional, whole warps) must call. `shared`: kCount
// values of T per warp, free again after the block's next barrier, so that
// successive calls take two pieces in turn.
template <int kCount, typename T>
__device__ __forceinline__ void block_sums(T (&values)[kCount], T* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  for (T& value : values) value = warp_sum(value);
  if (lane == 0)
    for (int i = 0; i < kCount; ++i) shared[warp * kCount + i] = values[i];
  __syncthreads();
  for (int i = 0; i < kCount; ++i)
    values[i] = warp_sum(lane < warps ? shared[lane * kCount + i] : T{0});
}

}  // namespace syncopate::cuda
