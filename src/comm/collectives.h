// Collectives built on Endpoint's point-to-point calls: the same source, and
// the same bits, in every world. All members of the group call with equal
// arguments; the tag is reserved for the call until it returns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/choice.h"
#include "comm/endpoint.h"
#include "comm/wire.h"

namespace syncopate {

enum class CollectiveAlgorithm : uint8_t {
  kRing,             // ring.h
  kButterfly,        // butterfly.h
  kBinaryBlocks,     // binary_blocks.h
  kParameterServer,  // parameter_server.h
  kHierarchical,     // hierarchical.h
  kNative,           // Endpoint::native_all_reduce
};
constexpr auto names_of(CollectiveAlgorithm) {
  return "ring butterfly binary_blocks parameter_server hierarchical native";
}

// One-line descriptions, for `list collectives`.
const std::vector<std::pair<CollectiveAlgorithm, std::string>>&
collective_table();

// Sums in place over the group, for any group size and any count including 0.
// All algorithms but native form sums in fp32, in an order that each header
// states and that depends only on the group's size (hierarchical: and hosts):
// all worlds give the same bits, and all members end with the same values, also
// with bf16 on the wire. native sends fp32 only: bf16 is Error(kBadInput).
void all_reduce_sum(Endpoint& endpoint,
                    const Group& group,
                    std::span<float> values,
                    CollectiveAlgorithm algorithm,
                    Wire wire,
                    Tag tag,
                    Traffic kind);

// Returns the payload bytes that the member at `position` sends in one
// all_reduce_sum, exactly as the counters will show. native is modelled as a
// ring. `hosts`: of each position, for hierarchical; empty: all are on one.
int64_t all_reduce_bytes(CollectiveAlgorithm algorithm,
                         int group_size,
                         int position,
                         int64_t elems,
                         Wire wire,
                         std::span<const int> hosts = {});

// Sends the root's bytes to all down a binomial tree. `root` is a position.
void broadcast(Endpoint& endpoint,
               const Group& group,
               Bytes data,
               int root,
               Tag tag,
               Traffic kind);

// Collects every member's values, in order of position, at every member / at
// the root (empty elsewhere). Sizes may differ between members.
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

// Combines element-wise over the group, with the same result at every member.
// Sums are formed in order of position, for which each member sends a message
// to the first. The others cost a message up and one down a tree per member;
// kCount adds whole numbers, whose sum below 2^53 is exact in any order.
enum class Combine : uint8_t { kSum, kCount, kMin, kMax };
void agree(Endpoint& endpoint,
           const Group& group,
           std::span<double> values,
           Combine combine,
           Tag tag,
           Traffic kind = Traffic::kControl);

// CHECKs that the group is of this worker and `root` is a position in it.
void check_group(const Endpoint& endpoint, const Group& group, int root = 0);

void barrier(Endpoint& endpoint, const Group& group, Tag tag);

}  // namespace syncopate
