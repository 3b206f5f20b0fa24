// Clears the blocks of a gradient that a step touched, so that passes over
// large tables take time in proportion to the rows of the step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/touched_blocks.h"
#include "ops/context.h"

namespace syncopate {

// Zeroes the marked blocks of the range and unmarks those that are kTouched.
// `values` is the whole range; `touched` has marks.
void clear_touched(Context& context,
                   std::span<float> values,
                   const TouchedBlocks& touched);

}  // namespace syncopate
