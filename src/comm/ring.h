// The ring all-reduce: reduce-scatter, then all-gather.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/collectives.h"

namespace syncopate {

void ring_all_reduce(Endpoint& endpoint,
                     const Group& group,
                     std::span<float> values,
                     Wire wire,
                     Tag tag,
                     Traffic kind);

// Round to nearest, ties to even; a NaN stays one.
uint16_t bf16_of(float value);
float from_bf16(uint16_t bits);

}  // namespace syncopate
