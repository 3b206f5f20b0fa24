// A priority queue for events in the order of their times, none of which may be
// earlier than the last one taken: a radix heap (Ahuja, Mehlhorn, Orlin and
// Tarjan 1990). An item waits in the bucket of the highest bit in which its
// time differs from that of the last one taken, and moves to lower buckets as
// that time comes closer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/check.h"
#include "comm/endpoint.h"

namespace syncopate::inproc {

// Item has `Time at`, which must not be negative, and operator>, which decides
// between items of the same time.
template <typename Item>
class RadixHeap {
 public:
  bool is_empty() const { return of_now_.empty() && used_ == 0; }

  void push(const Item& item) {
    CHECK(item.at >= now_);
    const int bucket = bucket_of(item);
    if (bucket < 0) {
      of_now_.push_back(item);
      std::ranges::push_heap(of_now_, std::greater<>());
    } else {
      buckets_[bucket].push_back(item);
      used_ |= uint64_t{1} << bucket;
    }
  }

  // Takes the first; there must be one.
  Item pop() {
    if (of_now_.empty()) advance();
    std::ranges::pop_heap(of_now_, std::greater<>());
    const Item first = of_now_.back();
    of_now_.pop_back();
    return first;
  }

 private:
  // -1: its time is now_. Numbers that are not negative are ordered like their
  // bits.
  int bucket_of(const Item& item) const {
    return 63 - std::countl_zero(std::bit_cast<uint64_t>(item.at) ^
                                 std::bit_cast<uint64_t>(now_));
  }

  // To the earliest time in the first bucket, whose items move to lower ones.
  void advance() {
    CHECK(used_ != 0);
    const int first = std::countr_zero(used_);
    used_ &= used_ - 1;
    std::vector<Item>& items = buckets_[first];
    now_ = std::ranges::min(items, {}, &Item::at).at;
    for (const Item& item : items) push(item);
    items.clear();
  }

  Time now_ = 0;              // of the item taken last
  std::vector<Item> of_now_;  // a heap
  std::array<std::vector<Item>, 64> buckets_;
  uint64_t used_ = 0;  // the buckets that are not empty, by bit
};

}  // namespace syncopate::inproc
