// The all-reduce of collectives.h: the available algorithms and their traffic.
// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "comm/binary_blocks.h"
#include "comm/butterfly.h"
#include "comm/collectives.h"
#include "comm/exchange.h"
#include "comm/hierarchical.h"
#include "comm/parameter_server.h"
#include "comm/ring.h"

namespace syncopate {

const std::vector<std::pair<CollectiveAlgorithm, std::string>>&
collective_table() {
  using enum CollectiveAlgorithm;
  static const std::vector<std::pair<CollectiveAlgorithm, std::string>> table =
      {
          {kRing, "reduce-scatter and all-gather around a ring: fewest bytes"},
          {kButterfly,
           "recursive halving and doubling: few messages; powers of two"},
          {kBinaryBlocks,
           "recursive halving in blocks of powers of two: any number"},
          {kParameterServer,
           "all send to a server (the first worker, or a machine of its own), "
           "which returns the sum: its link is the bottleneck"},
          {kHierarchical,
           "rings inside hosts, then between them: fewest bytes between hosts"},
          {kNative,
           "the MPI library's own; a sum in rank order in one process"},
      };
  return table;
}

void all_reduce_sum(Endpoint& endpoint,
                    const Group& group,
                    std::span<float> values,
                    CollectiveAlgorithm algorithm,
                    Wire wire,
                    Tag tag,
                    Traffic kind) {
  check_group(endpoint, group);
  if (algorithm == CollectiveAlgorithm::kNative) {
    if (wire != Wire::kF32)
      fail(ExitCode::kBadInput,
           "the native collective sends fp32 only: bf16 on the wire needs "
           "another one (syncopate list collectives)");
    endpoint.native_all_reduce(values, group, kind);
    return;
  }
  const int n = group.size();
  if (n == 1) return;
  const auto elems = static_cast<int64_t>(values.size());
  endpoint.perform([&](Endpoint& here) {
    const auto exchange = [&](const ReduceSteps& reduce) {
      Exchange(here, group, values, wire, tag, kind).run(reduce);
    };
    switch (algorithm) {
      case CollectiveAlgorithm::kRing:
        return ring_all_reduce(here, group, values, wire, tag, kind);
      case CollectiveAlgorithm::kButterfly:
        return exchange(butterfly_steps(n, group.position, elems));
      case CollectiveAlgorithm::kBinaryBlocks:
        return exchange(binary_blocks_steps(n, group.position, elems));
      case CollectiveAlgorithm::kParameterServer:
        return parameter_server_all_reduce(here, group, values, wire, tag,
                                           kind);
      case CollectiveAlgorithm::kHierarchical:
        return hierarchical_all_reduce(here, group, values, wire, tag, kind);
      case CollectiveAlgorithm::kNative:
        break;
    }
    CHECK_MSG(false, "collective {}", static_cast<int>(algorithm));
  });
}

int64_t all_reduce_bytes(CollectiveAlgorithm algorithm,
                         int group_size,
                         int position,
                         int64_t elems,
                         Wire wire,
                         std::span<const int> hosts) {
  CHECK(group_size >= 1 && position >= 0 && position < group_size);
  if (group_size == 1) return 0;
  const auto sent = [&] {
    switch (algorithm) {
      case CollectiveAlgorithm::kButterfly:
        return elems_sent(butterfly_steps(group_size, position, elems));
      case CollectiveAlgorithm::kBinaryBlocks:
        return elems_sent(binary_blocks_steps(group_size, position, elems));
      case CollectiveAlgorithm::kParameterServer:
        return parameter_server_elems_sent(group_size, position, elems);
      case CollectiveAlgorithm::kHierarchical:
        if (hosts.empty()) break;
        return hierarchical_elems_sent(hosts, position, elems);
      case CollectiveAlgorithm::kRing:
      case CollectiveAlgorithm::kNative:
        break;
    }
    return ring_elems_sent(group_size, position, elems);
  };
  return wire_bytes(wire, sent());
}

}  // namespace syncopate
