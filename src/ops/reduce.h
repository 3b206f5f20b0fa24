// Sums over fp32 ranges with a result that does not depend on the number of
// threads: fixed chunks, combined in index order, in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"

namespace syncopate {

// What digest() multiplies by: odd, its bits without a pattern (2^64 over the
// golden ratio).
inline constexpr uint64_t kDigestFactor = 0x9E3779B97F4A7C15;

// These three return a number, so they wait for the stream: not for use inside
// a step.
double dot(Context& context,
           std::span<const float> x,
           std::span<const float> y);
// Index of the first NaN or infinity, or -1.
int64_t first_nonfinite(Context& context, std::span<const float> x);
// Of the bits of all values and their places: the same on every device. Ranges
// that differ in one value have different digests, others but for 2^-64.
uint64_t digest(Context& context, std::span<const float> x);

// *factor = min(1, limit / (scale * |gradient| + 1e-6)), the global-norm
// clipping of Pascanu et al. 2013 with the constant of the field's frameworks;
// a norm of NaN gives NaN, an infinite one 0.
// `factor` lies in the context's memory; nothing waits for it.
void clip_factor(Context& context,
                 float* factor,
                 std::span<const float> gradient,
                 double scale,
                 double limit);

}  // namespace syncopate
