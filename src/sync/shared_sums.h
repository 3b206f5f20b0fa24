// Sums of ranges of workers of one process that share a device: formed there,
// with the bits of the ring all-reduce (comm/ring.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "comm/endpoint.h"
#include "comm/wire.h"
#include "ops/context.h"

namespace syncopate {

class SharedSums {
 public:
  // Brings a member's range to its group's next sum with this tag. Members
  // bring ranges of equal length in memory of the context's device, with
  // contexts of one stream. The last of them submits work to it that replaces
  // all ranges by their sum, as they are after the work submitted so far.
  void enter(Context& context,
             const Group& group,
             Tag tag,
             std::span<float> values,
             Wire wire);

 private:
  // By members and tag: the ranges that were brought, by position.
  std::map<std::pair<Ranks, Tag>, std::vector<std::span<float>>> open_;
  Buffer rounded_;  // bf16: a chunk as it would travel
};

}  // namespace syncopate
