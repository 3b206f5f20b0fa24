// Random words for compressors, with random access to their sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/philox.cuh"
#include "ops/quantize.h"

namespace syncopate::cuda {

// Words 4 * block to 4 * block + 3 of Rng(seed, kQuantize, worker, step).
__device__ __forceinline__ Draws draws_of(const Draw& draw, int64_t block) {
  return philox_draws(draw.seed, Purpose::kQuantize, draw.worker, block,
                      draw.step);
}

}  // namespace syncopate::cuda
