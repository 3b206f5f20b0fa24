// The node-aware all-reduce: sums are formed inside each host before anything
// leaves it. With H hosts, of which this one has L of the group's workers:
//   1. reduce-scatter around a ring (ring.h) inside each host: worker c holds
//      its host's sum of chunk c of L;
//   2. each range that the same worker of every host holds, a slice, is
//      all-reduced around a ring of these H workers, so that all workers of a
//      host use their links at the same time;
//   3. all-gather around the ring of step 1.
// Hosts may have different numbers of workers: slices end wherever a chunk of
// any host does. A worker takes its slices in rounds, and slices of the same
// round have no worker in common.
//
// Chunk c of a host is summed in the order c+1, c+2, ..., c of its workers, and
// chunk k of a slice then in the order k+1, k+2, ..., k of the hosts. Workers
// count in order of position, hosts in order of their first workers. If all
// workers share a host, or none do, this is the ring.
//
// For a range of M bytes, a worker sends 2 (L-1)/L M inside its host and, if
// hosts have equal numbers of workers, 2 (H-1)/H M/L between hosts. A host
// sends 2 (H-1)/H M, where a ring of all N workers sends 2 (N-1)/N M at best
// and L times that if neighbours are on different hosts. Time: 2 (L-1) messages
// of M/L bytes inside and 2 (H-1) of M/(L H) between hosts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/endpoint.h"
#include "comm/wire.h"

namespace syncopate {

void hierarchical_all_reduce(Endpoint& endpoint,
                             const Group& group,
                             std::span<float> values,
                             Wire wire,
                             Tag tag,
                             Traffic kind);

// `hosts`: of each position, as Endpoint::host_of() numbers them.
int64_t hierarchical_elems_sent(std::span<const int> hosts,
                                int position,
                                int64_t elems);

}  // namespace syncopate
