// Who uses which message tags. One place, so that no two meet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/endpoint.h"

namespace syncopate::tags {

inline constexpr Tag kControl = 0;         // agreement of the training loop
inline constexpr Tag kArrival = 8;         // who has its gradients
inline constexpr Tag kCollective = 16;     // blocking collectives of a worker
inline constexpr Tag kCheckpoint = 32;     // digests of worker files
inline constexpr Tag kResults = 48;        // rows gathered for results.h5
inline constexpr Tag kEvaluation = 64;     // metrics, averaged models
inline constexpr Tag kTicketRequest = 80;  // to rank 0: may I take a step?
inline constexpr Tag kTicketAnswer = 81;
inline constexpr Tag kAverage = 96;       // + 0..15: means over a group
inline constexpr Tag kStateServer = 112;  // + 0..3: ESync's queries, answers
inline constexpr Tag kServer = 128;  // + 0..15: to a shard of the parameters
inline constexpr Tag kServerAnswer = 144;  // + 0..15: and back
inline constexpr Tag kProbe = 160;         // how late messages are
inline constexpr Tag kProbeAnswer = 161;   // + 0..3: and back
inline constexpr Tag kGossip = 512;        // + 0..15: neighbours' messages
inline constexpr Tag kBucket = 1024;       // + bucket index: bsp's all-reduces
inline constexpr Tag kMaxTag = 32767;      // what MPI guarantees

}  // namespace syncopate::tags
