// Host memory of collectives: what they do with values, and where they keep
// those on their way. Memory of a none device (device/device.h) has no values
// and is left alone, so that only sizes of messages remain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/device.h"

namespace syncopate {

// sum[i] += term[i]; the two ranges are disjoint.
void add_values(float* sum, const float* term, int64_t elems);
// to[i] = from[i]; the two ranges are disjoint or equal.
void copy_values(float* to, const float* from, int64_t elems);

// Memory for values that were received or are to be sent.
template <typename T>
class Scratch {
 public:
  // Makes room for `elems` values and may lose those that it holds. It holds no
  // values if `like`, the source of what it will hold, has none.
  void grow(int64_t elems, const void* like) {
    if (!has_values(like)) {
      without_values_ = static_cast<T*>(const_cast<void*>(like));
      return;
    }
    const auto size = static_cast<size_t>(elems);
    if (values_.size() < size) values_.resize(size);
  }
  T* data() {
    return without_values_ == nullptr ? values_.data() : without_values_;
  }

 private:
  std::vector<T> values_;
  T* without_values_ = nullptr;
};

}  // namespace syncopate
