// Collectives written over Endpoint's point-to-point calls: the same source,
// and the same bits, in every world. All members of the group call with equal
// arguments; the tag belongs to the call until it returns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/endpoint.h"

namespace syncopate {

enum class CollectiveAlgorithm : uint8_t { kRing, kNative };

// What travels: the values as they are, or rounded to bf16 for the wire (sums
// are still formed in fp32; every member ends with the same values).
enum class Wire : uint8_t { kF32, kBf16 };

// In-place sum over the group. Ring: reduce-scatter then all-gather of the
// range cut into group.size() chunks (sizes differ by at most one element, any
// count including 0): 2 (N-1)/N of the range's bytes sent by each member,
// Patarasuk & Yuan 2009. Chunk c is summed along the ring in the fixed order
// c+1, c+2, ..., c, so all worlds give the same bits.
void all_reduce_sum(Endpoint& endpoint,
                    const Group& group,
                    std::span<float> values,
                    CollectiveAlgorithm algorithm,
                    Wire wire,
                    Tag tag,
                    Traffic kind);

// Payload bytes that `rank` at `position` sends in one all_reduce_sum: exactly
// what the ring's counters will show, and what `native` is modelled as.
int64_t all_reduce_bytes(int group_size,
                         int position,
                         int64_t elems,
                         Wire wire);

// Root's bytes to all, down a binomial tree. `root` is a position.
void broadcast(Endpoint& endpoint,
               const Group& group,
               Bytes data,
               int root,
               Tag tag,
               Traffic kind);

// Every member's values, in order of position, at every member / at the root
// (empty elsewhere). Sizes may differ between members.
std::vector<std::vector<double>> all_gather(Endpoint& endpoint,
                                            const Group& group,
                                            std::span<const double> values,
                                            Tag tag,
                                            Traffic kind);
std::vector<std::vector<std::byte>> gather_bytes(Endpoint& endpoint,
                                                 const Group& group,
                                                 ConstBytes data,
                                                 int root,
                                                 Tag tag,
                                                 Traffic kind);

// Element-wise over the group, the same at every member; exact for integers
// below 2^53, and sums are formed in order of position.
enum class Combine : uint8_t { kSum, kMin, kMax };
void agree(Endpoint& endpoint,
           const Group& group,
           std::span<double> values,
           Combine combine,
           Tag tag,
           Traffic kind = Traffic::kControl);

void barrier(Endpoint& endpoint, const Group& group, Tag tag);

}  // namespace syncopate
