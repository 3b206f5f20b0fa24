// Keeps NaN and infinity from what comes behind, on the device, so that nobody
// has to wait to hear of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ops/context.h"

namespace syncopate {

// *found = max(*found, offset + index of the last value that is NaN or
// infinite); where that is not negative, all values become 0. Ranges of a step
// that are given in falling order thus lose all that follows the first finding,
// and *found, -1 before, is what backward met first.
// `found` lies in the context's memory.
void withhold_nonfinite(Context& context,
                        std::span<float> values,
                        int64_t* found,
                        int64_t offset);

// values = saved where *found is not negative; as long, and apart.
void restore_withheld(Context& context,
                      std::span<float> values,
                      std::span<const float> saved,
                      const int64_t* found);

}  // namespace syncopate
