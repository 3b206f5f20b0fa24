// The distinct values of a field, and the table row assigned to each.
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

// Counts the occurrences of each value of one field, in a hash table with slots
// of 8 bytes that is more than a quarter full.
class ValueCounts {
 public:
  ValueCounts();
  // Counts those of `keys` whose entry in `is_left_out` is 0.
  void add(std::span<const ClickKey> keys, const uint8_t* is_left_out);
  // The values that occur at least `threshold` times, in no particular order.
  std::vector<CountedValue> at_least(int64_t threshold) const;

 private:
  struct Slot {
    uint32_t value = 0;
    uint32_t records = 0;  // 0: free slot; saturates
  };
  size_t place(uint32_t value) const;  // the slot that holds it or will
  void grow();

  int shift_;
  size_t used_ = 0;
  int64_t missing_ = 0;
  std::vector<Slot> slots_;
};

// Maps value i of the constructor to row i + 1 and all other values to row 0.
class RowTable {
 public:
  explicit RowTable(std::span<const CountedValue> values);
  void find(std::span<const ClickKey> keys, uint32_t* rows) const;

 private:
  struct Slot {
    uint32_t value = 0;
    uint32_t row = 0;  // 0: free slot
  };
  size_t place(uint32_t value) const;  // the slot that holds it or is free

  int shift_;
  uint32_t missing_row_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace syncopate
