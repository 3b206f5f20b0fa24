// Stale synchronous parallel (Ho et al. 2013): asp, with a limit on how far a
// worker may be ahead. A worker's clock is the number of its updates since the
// last boundary, as a shard has seen them. With s = ssp.bound,
//
//   the pull after update c of a worker is answered once every other worker
//   has clock >= c - s, or is at the boundary;
//   step c + 1 is handed out once no worker has taken fewer than c - s.
//
// A worker at clock c thus sees all updates of clocks up to c - s and maybe
// more, and the fastest is never more than s + 1 steps ahead of the slowest. A
// worker with the lowest clock is never held back, so there is always progress.
//
// With s = 0, updates of a clock are hidden until all workers have made theirs:
// without momentum, and with the rate divided by N, that is bsp up to rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/asp.h"

namespace syncopate {

class Ssp final : public Asp {
 public:
  explicit Ssp(const SchemeParts& parts) : Asp(parts, parts.sync.ssp.bound) {}
};

void check_ssp(const SchemeRequest& request);
std::vector<Key> ssp_keys();

}  // namespace syncopate
