// Views any image layout as rows of channel groups: group g holds channels 16 g
// ... 16 g + 15, row r is one pixel (n, h, w) in that order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "ops/cpu/simd.h"
#include "tensor/tensor.h"

namespace syncopate::cpu {

struct ImageView {
  int64_t N, C, pixels;  // pixels per image
  int64_t groups;        // ceil(C / 16)
  int64_t image_stride, row_stride, group_stride, lane_stride;  // elements

  int64_t rows() const { return N * pixels; }
  int64_t padded_channels() const { return groups * kLanes; }
  int lanes(int64_t group) const {
    return static_cast<int>(std::min<int64_t>(kLanes, C - group * kLanes));
  }
  int64_t offset(int64_t group, int64_t row) const {
    return group * group_stride + row / pixels * image_stride +
           row % pixels * row_stride;
  }
};

// (N, C) counts as one pixel per image.
template <typename Pointer>
ImageView view_of(const BasicTensor<Pointer>& t) {
  CHECK(t.shape.rank() == 2 || t.shape.rank() == 4);
  const int64_t C = t.shape[1];
  const int64_t pixels = t.shape.rank() == 2 ? 1 : t.shape[2] * t.shape[3];
  ImageView view{t.shape[0], C, pixels, (C + kLanes - 1) / kLanes,
                 C * pixels, C, kLanes, 1};
  if (t.shape.rank() == 2) return view;
  if (t.layout == Layout::kNchw16c) {
    CHECK(C % kLanes == 0);
    view.row_stride = kLanes;
    view.group_stride = pixels * kLanes;
  } else if (t.layout == Layout::kRowMajor) {
    view.row_stride = 1;
    view.group_stride = pixels * kLanes;
    view.lane_stride = pixels;
  }
  return view;
}

// Calls body(AllLanes) if the group is complete and contiguous, else
// body(SomeLanes).
template <typename Body>
void with_lanes(const ImageView& view, int64_t group, const Body& body) {
  if (view.lane_stride == 1 && view.lanes(group) == kLanes)
    body(AllLanes{});
  else
    body(SomeLanes{view.lanes(group), view.lane_stride});
}

// Calls body(offset, count) for runs of rows, row_stride apart, that make up
// rows [begin, end) of a group.
template <typename Body>
void for_runs(const ImageView& view,
              int64_t group,
              int64_t begin,
              int64_t end,
              const Body& body) {
  while (begin < end) {
    const int64_t count =
        std::min(end - begin, view.pixels - begin % view.pixels);
    body(view.offset(group, begin), count);
    begin += count;
  }
}

}  // namespace syncopate::cpu
