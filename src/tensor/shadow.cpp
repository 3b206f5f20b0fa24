#include "tensor/shadow.h"

#include <algorithm>

namespace syncopate {

void ShadowTable::add(int64_t offset, const Shape& shape, int64_t padded_C) {
  const int rank = shape.rank();
  CHECK(rank == 1 || rank == 2 || rank == 4);
  const int64_t C = shape[rank == 1 ? 0 : 1];
  const int64_t window = rank == 4 ? shape[2] * shape[3] : 1;
  CHECK(padded_C >= C && shape.elems() <= UINT32_MAX);
  const auto place =
      std::ranges::lower_bound(entries_, offset, {}, &ShadowEntry::begin);
  if (place != entries_.end() && place->begin == offset) {
    CHECK(place->end == offset + shape.elems() && place->padded_C == padded_C);
    return;
  }
  const ShadowEntry entry{.begin = offset,
                          .end = offset + shape.elems(),
                          .at = num_elems_,
                          .C = static_cast<uint32_t>(C),
                          .window = static_cast<uint32_t>(window),
                          .padded_C = static_cast<uint32_t>(padded_C)};
  CHECK(place == entries_.end() || entry.end <= place->begin);
  const int64_t elems = shape.elems() / C * padded_C;
  num_elems_ += (elems + kAlignment - 1) / kAlignment * kAlignment;
  entries_.insert(place, entry);
}

const ShadowEntry* ShadowTable::find(int64_t offset) const {
  const auto place =
      std::ranges::lower_bound(entries_, offset, {}, &ShadowEntry::begin);
  return place != entries_.end() && place->begin == offset ? &*place : nullptr;
}

}  // namespace syncopate
