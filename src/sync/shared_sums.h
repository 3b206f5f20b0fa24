// Sums of ranges of workers of one process that share a device: formed there,
// with the bits of the collective that would exchange them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "comm/collectives.h"
#include "ops/context.h"

namespace syncopate {

class SharedSums {
 public:
  // Whether sums of a group of this size can be formed as by `algorithm`, in
  // one process: those that add one worker after the other.
  static bool forms(CollectiveAlgorithm algorithm, int group_size);

  // Brings a member's range to its group's next sum with this tag. Members
  // bring ranges of equal length in memory of the context's device, with
  // contexts of one stream. The last of them submits work to it that replaces
  // all ranges by their sum, as they are after the work submitted so far.
  void enter(Context& context,
             const Group& group,
             Tag tag,
             std::span<float> values,
             CollectiveAlgorithm algorithm,
             Wire wire);

 private:
  // By members and tag: the ranges that were brought, by position.
  std::map<std::pair<Ranks, Tag>, std::vector<std::span<float>>> open_;
};

}  // namespace syncopate
