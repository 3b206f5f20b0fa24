// Which values a field of records has, and which row of its table each gets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/clicks/criteo_tsv.h"

namespace syncopate {

struct CountedValue {
  ClickKey key = 0;
  int64_t records = 0;
};

// How often each value of one field occurs; 8 bytes a slot, of which more than
// a quarter are in use.
class ValueCounts {
 public:
  ValueCounts();
  // Those of `keys` whose place in `is_left_out` is 0.
  void add(std::span<const ClickKey> keys, const uint8_t* is_left_out);
  // Values that occur at least `threshold` times; in no order.
  std::vector<CountedValue> at_least(int64_t threshold) const;

 private:
  struct Slot {
    uint32_t value = 0;
    uint32_t records = 0;  // 0: free; stays at the highest number
  };
  size_t place(uint32_t value) const;  // where it is or belongs
  void grow();

  int shift_;
  size_t used_ = 0;
  int64_t missing_ = 0;
  std::vector<Slot> slots_;
};

// Row i + 1 for value i, row 0 for every other.
class RowTable {
 public:
  explicit RowTable(std::span<const CountedValue> values);
  void find(std::span<const ClickKey> keys, uint32_t* rows) const;

 private:
  struct Slot {
    uint32_t value = 0;
    uint32_t row = 0;  // 0: free
  };
  int shift_;
  uint32_t missing_row_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace syncopate
