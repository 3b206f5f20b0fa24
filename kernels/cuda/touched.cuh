// Passes over the marked blocks of a gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/touched_blocks.h"
#include "cuda/pack.cuh"
#include "cuda/platform.h"
#include "cuda/reduce.cuh"

namespace syncopate::cuda {

// Blocks whose marks a warp reads at once, where a block is little work. More
// would leave too few warps for the dense part of a network, which is always
// marked.
constexpr int kBlocksPerWarp = 8;

// Threads may mark the same block at the same time.
__device__ __forceinline__ void mark_touched(const TouchedBlocks& touched,
                                             const float* value) {
  if (touched.marks == nullptr) return;
  uint8_t& mark =
      touched.marks[(value - touched.begin) / TouchedBlocks::kElems];
  if (mark == TouchedBlocks::kUntouched) mark = TouchedBlocks::kTouched;
}

// Calls body(block, begin) for each marked block that values [0, n) reach into,
// with all lanes of one warp; the block begins at element `begin` of values,
// which may be before them, and may end after them. A warp takes kBlocks at a
// time.
template <int kBlocks = kBlocksPerWarp, typename Body>
__device__ __forceinline__ void for_touched(const TouchedBlocks& touched,
                                            const float* values,
                                            int64_t n,
                                            const Body& body) {
  constexpr int64_t kElems = TouchedBlocks::kElems;
  const int64_t place = values - touched.begin;
  const int64_t end = (place + n + kElems - 1) / kElems;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t warps = int64_t{gridDim.x} * (blockDim.x / kWarpSize);
  for (int64_t first = place / kElems + thread / kWarpSize * int64_t{kBlocks};
       first < end; first += warps * kBlocks) {
    const int64_t block = first + lane;
    const bool is_marked = lane < kBlocks && block < end &&
                           touched.marks[block] != TouchedBlocks::kUntouched;
    const unsigned votes = __ballot_sync(kAllLanes, is_marked);
    for (int i = 0; i < kBlocks; ++i)
      if ((votes >> i & 1) != 0) body(first + i, (first + i) * kElems - place);
  }
}

// As for_touched, but body(i) for each of values [0, n) in a marked block, each
// with one thread.
template <typename Body>
__device__ __forceinline__ void for_touched_elems(const TouchedBlocks& touched,
                                                  const float* values,
                                                  int64_t n,
                                                  const Body& body) {
  for_touched(touched, values, n, [&](int64_t, int64_t begin) {
    for (int e = 0; e < TouchedBlocks::kElems; e += kWarpSize) {
      const int64_t i = begin + e + threadIdx.x % kWarpSize;
      if (i >= 0 && i < n) body(i);
    }
  });
}

// Returns the grid for for_touched over n values, with `threads` a block.
template <int kBlocks = kBlocksPerWarp>
dim3 grid_of_touched(int64_t n, int threads) {
  const int64_t elems_per_block =
      threads / kWarpSize * kBlocks * TouchedBlocks::kElems;
  return dim3(grid_for(n + TouchedBlocks::kElems, elems_per_block));
}

}  // namespace syncopate::cuda
