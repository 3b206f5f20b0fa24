// All-reduce through one server: position 0 adds all values to its own in order
// of position and sends the sums back.
//
// Bytes, for a range of M bytes: every other member sends M and receives M, the
// server (N-1) M each way. A segment is answered as soon as all members have
// sent it, so the time is limited by the server's link: (N-1) M plus two
// latencies.
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
