// Long ranges are sent in segments, so that one segment is summed or forwarded
// while the next arrives.
//
// A stream of segments keeps kAhead receives posted and lets its sends run at
// most kAhead ahead of what was received, with kWindow of them in flight. Two
// members that stream to each other therefore cannot deadlock: the one farthest
// behind waits either for a segment that the other has already sent, or for the
// completion of one of its own sends for which the other has a receive posted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace syncopate {

struct ElemRange {
  int64_t first = 0, elems = 0;
};

// 256 KiB: measured as the best message size for MPICH in shared memory; both
// the incoming and the local segment stay in the L2 cache.
inline constexpr int64_t kSegmentElems = int64_t{1} << 16;
inline constexpr int64_t kAhead = 4;
inline constexpr int64_t kWindow = 2 * kAhead;

constexpr int64_t num_segments(int64_t elems) {
  return (elems + kSegmentElems - 1) / kSegmentElems;
}

// Returns segment k of a range; empty beyond its end.
constexpr ElemRange segment_of(const ElemRange& range, int64_t k) {
  const int64_t begin = std::min(range.elems, k * kSegmentElems);
  const int64_t end = std::min(range.elems, begin + kSegmentElems);
  return {range.first + begin, end - begin};
}

}  // namespace syncopate
