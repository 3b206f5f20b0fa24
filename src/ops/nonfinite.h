// Withholds NaN and infinity from later work, on the device, so that the host
// need not wait to learn of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/touched_blocks.h"
#include "ops/context.h"

namespace syncopate {

// *found = max(*found, offset + index of the last NaN or infinite value); if
// that is not negative, all values become 0. Ranges of a step given in
// descending order thus lose everything after the first finding, and *found,
// initially -1, is what backward met first. `found` is in the context's memory.
// Only marked blocks are read.
void withhold_nonfinite(Context& context,
                        std::span<float> values,
                        int64_t* found,
                        int64_t offset,
                        const TouchedBlocks& touched = {});

// values = saved if *found is not negative. Equal lengths; must not alias.
void restore_withheld(Context& context,
                      std::span<float> values,
                      std::span<const float> saved,
                      const int64_t* found);

}  // namespace syncopate
