// Long ranges travel in segments, so that one is summed or passed on while the
// next comes in.
//
// A stream of segments keeps kAhead receives posted and lets its sends run at
// most kAhead ahead of what was received, kWindow of them under way. So two
// that stream to each other cannot stop one another: who is farthest behind
// waits for a segment that the other has sent, or for one of its own to be
// taken that the other has a receive for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace syncopate {

struct ElemRange {
  int64_t first = 0, elems = 0;
};

// 256 KiB: measured as the best message of MPICH in shared memory, and both
// the incoming and the own segment stay in the second-level cache.
inline constexpr int64_t kSegmentElems = int64_t{1} << 16;
inline constexpr int64_t kAhead = 4;
inline constexpr int64_t kWindow = 2 * kAhead;

constexpr int64_t num_segments(int64_t elems) {
  return (elems + kSegmentElems - 1) / kSegmentElems;
}

// Segment k of a range; empty behind its end.
constexpr ElemRange segment_of(const ElemRange& range, int64_t k) {
  const int64_t begin = std::min(range.elems, k * kSegmentElems);
  const int64_t end = std::min(range.elems, begin + kSegmentElems);
  return {range.first + begin, end - begin};
}

}  // namespace syncopate
