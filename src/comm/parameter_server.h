// All-reduce through one server: position 0 adds all values to its own in order
// of position and sends the sums back.
//
// Bytes, for a range of M bytes: every other member sends M and receives M, the
// server (N-1) M each way. A segment is answered as soon as all members have
// sent it, so the time is limited by the server's link: (N-1) M plus two
// latencies.
//
// Where servers have machines of their own (Endpoint::server_rank), that of
// position 0 adds the values of all N members, which it has received from each:
// N M each way. In bf16, the values of position 0 are then rounded like others.
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

// On the members. The server on a machine of its own sends as much as all
// members of its group together.
int64_t parameter_server_elems_sent(int group_size,
                                    int position,
                                    int64_t elems);

}  // namespace syncopate
