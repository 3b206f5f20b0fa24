// How much of a step's communication other work has hidden.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "comm/endpoint.h"

namespace syncopate {

// Returns how long communication was active before `until`: the union of these
// pairs of begin and end, since they overlap. Sorts them.
template <typename Iterator>
double busy_before(Iterator first, Iterator last, Time until) {
  if (!std::is_sorted(first, last)) std::sort(first, last);
  double busy = 0;
  Time covered = 0;
  for (; first != last; ++first) {
    const Time from = std::max(first->first, covered);
    const Time to = std::min(first->second, until);
    if (to <= from) continue;
    busy += to - from;
    covered = to;
  }
  return busy;
}

}  // namespace syncopate
