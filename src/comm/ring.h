// The ring all-reduce: reduce-scatter, then all-gather, of the range divided
// into N chunks (sizes differ by at most one element; any count including 0):
// Patarasuk & Yuan 2009. Chunk c is summed in the order c+1, c+2, ..., c.
//
// For a range of M bytes, each member sends 2 (N-1)/N M in 2 (N-1) steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/endpoint.h"
#include "comm/wire.h"

namespace syncopate {

void ring_all_reduce(Endpoint& endpoint,
                     const Group& group,
                     std::span<float> values,
                     Wire wire,
                     Tag tag,
                     Traffic kind);

int64_t ring_elems_sent(int group_size, int position, int64_t elems);

}  // namespace syncopate
