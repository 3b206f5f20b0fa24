#include "tensor/arena.h"

#include <algorithm>
#include <iterator>

namespace syncopate {

// Takes the smallest hole that fits (the first of equals), else the end.
Slot Arena::take(DType dtype, Shape shape, Layout layout) {
  constexpr int64_t kAlignment = 64;
  const int64_t bytes =
      std::max<int64_t>(
          1, (shape.elems() * bytes_of(dtype) + kAlignment - 1) / kAlignment) *
      kAlignment;
  auto best = free_.end();
  for (auto hole = free_.begin(); hole != free_.end(); ++hole)
    if (hole->second >= bytes &&
        (best == free_.end() || hole->second < best->second))
      best = hole;
  int64_t offset = end_bytes_;
  if (best != free_.end()) {
    offset = best->first;
    const int64_t rest = best->second - bytes;
    free_.erase(best);
    if (rest > 0) free_[offset + bytes] = rest;
  } else {
    // A hole that touches the end can be extended.
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == end_bytes_) {
        offset = last->first;
        free_.erase(last);
      }
    }
    end_bytes_ = offset + bytes;
  }
  taken_[offset] = bytes;
  peak_bytes_ = std::max(peak_bytes_, end_bytes_);
  return {dtype, shape, layout, offset};
}

void Arena::give_back(const Slot& slot) {
  const auto block = taken_.find(slot.offset_bytes);
  CHECK(block != taken_.end());
  auto [offset, bytes] = *block;
  taken_.erase(block);
  // Merge with the holes on both sides.
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

void Arena::commit(Device& device) {
  memory_ = Buffer(device, peak_bytes_);
}

Tensor Arena::at(const Slot& slot) const {
  CHECK(memory_.data() != nullptr && slot.offset_bytes >= 0);
  return make_tensor(memory_.as<char>() + slot.offset_bytes, slot.dtype,
                     slot.shape, slot.layout);
}

}  // namespace syncopate
