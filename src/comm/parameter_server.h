// All-reduce through one server: position 0 adds everyone's values to its own
// in order of position, and sends the sums back.
//
// Bytes, of M: every other member sends M and receives M, the server (N-1) M
// each. A segment is answered as soon as all have sent it, so in time the
// server's link decides: (N-1) M, and two latencies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/endpoint.h"
#include "comm/wire.h"

namespace syncopate {

void parameter_server_all_reduce(Endpoint& endpoint,
                                 const Group& group,
                                 std::span<float> values,
                                 Wire wire,
                                 Tag tag,
                                 Traffic kind);

int64_t parameter_server_elems_sent(int group_size,
                                    int position,
                                    int64_t elems);

}  // namespace syncopate
