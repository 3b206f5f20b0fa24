// All message tags, assigned in one place to keep them disjoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/endpoint.h"

namespace syncopate::tags {

inline constexpr Tag kControl = 0;         // consensus of the training loop
inline constexpr Tag kArrival = 8;         // who has its gradients
inline constexpr Tag kCollective = 16;     // a worker's blocking collectives
inline constexpr Tag kCheckpoint = 32;     // digests of worker files
inline constexpr Tag kResults = 48;        // rows gathered for results.h5
inline constexpr Tag kEvaluation = 64;     // metrics, averaged models
inline constexpr Tag kTicketRequest = 80;  // to rank 0: request for a step
inline constexpr Tag kTicketAnswer = 81;
inline constexpr Tag kAverage = 96;       // + 0..15: means over a group
inline constexpr Tag kStateServer = 112;  // + 0..3: ESync's queries and answers
inline constexpr Tag kServer = 128;  // + 0..15: pushes to a parameter shard
inline constexpr Tag kServerPull = kServer + 3;  // requests for pulls
inline constexpr Tag kServerAnswer = 144;  // + 0..15: answers of a parameter
                                           // shard
inline constexpr Tag kProbe = 160;         // measures message latency
inline constexpr Tag kProbeAnswer = 161;   // + 0..2: answers to probes
inline constexpr Tag kProbeChunk = 165;    // + 0..2: what a probe announces
inline constexpr Tag kProbeEnd = 168;      // everybody has all answers
inline constexpr Tag kStepTime = 176;      // to rank 0: seconds of a step
inline constexpr Tag kGossip = 512;        // + 0..15: messages of neighbours
inline constexpr Tag kBatchNorm = 1023;    // sums of BatchNorm's statistics
inline constexpr Tag kBucket = 1024;       // + bucket index: all-reduces of bsp
inline constexpr Tag kMaxTag = 32767;      // the least upper bound that MPI
                                           // guarantees

// Whether the messages of a scheme itself have this tag, and not what workers
// tell each other about them.
constexpr bool carries_payload(Tag tag) {
  const auto is_part_of = [tag](Tag header) {
    return tag == header + 1 || tag == header + 2;
  };
  return tag >= kBatchNorm || tag == kGossip ||
         (tag >= kAverage && tag < kAverage + 16) || is_part_of(kServer) ||
         tag == kServerPull || is_part_of(kServerAnswer);
}

std::string name_of(Tag tag);  // "bucket 3", "checkpoint"

}  // namespace syncopate::tags
