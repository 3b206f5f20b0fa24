// Sums over fp32 ranges whose results do not depend on the number of threads:
// fixed chunks, combined in index order, in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/touched_blocks.h"
#include "ops/context.h"

namespace syncopate {

// Multiplier of digest(): odd, with patternless bits (2^64 over the golden
// ratio).
inline constexpr uint64_t kDigestFactor = 0x9E3779B97F4A7C15;

// These three return a number and so block on the stream: do not use them
// within a step.
double dot(Context& context,
           std::span<const float> x,
           std::span<const float> y);
// Returns the index of the first NaN or infinity, or -1.
int64_t first_nonfinite(Context& context, std::span<const float> x);
// Digest of the bits of all values and their places: the same on every device.
// Ranges that differ in one value have different digests; others collide with
// probability 2^-64.
uint64_t digest(Context& context, std::span<const float> x);

// *factor = min(1, limit / (scale * |gradient| + 1e-6)), the global-norm
// clipping of Pascanu et al. 2013 with the usual constant; a NaN norm gives
// NaN, an infinite one 0. `factor` is in the context's memory. Does not wait
// for the device. With marks, which only the whole range may have, reads marked
// blocks only.
void clip_factor(Context& context,
                 float* factor,
                 std::span<const float> gradient,
                 double scale,
                 double limit,
                 const TouchedBlocks& touched = {});

}  // namespace syncopate
