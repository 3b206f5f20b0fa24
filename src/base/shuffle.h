// Random orders of anything, such as the samples of an epoch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/rng.h"

namespace syncopate {

// Brings the values into a random order (Fisher-Yates), a function of the Rng
// and of their number alone: permutation(n, rng) for 0..n-1.
void shuffle(std::span<int32_t> values, Rng rng);
void shuffle(std::span<int64_t> values, Rng rng);

}  // namespace syncopate
