#include "data/clicks/click_vocabulary.h"

#include <algorithm>

#include "base/check.h"

namespace syncopate {
namespace {

// Open addressing with linear probing; the home slot is given by the upper bits
// of the product with 2^64 / golden ratio (Knuth, TAOCP 3, 6.4).
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
constexpr int kLeastBits = 6;
// Number of values by which the prefetching of slots runs ahead.
constexpr size_t kAhead = 16;

size_t home(uint64_t value, int shift) {
  return value * kGolden >> shift;
}

}  // namespace

ValueCounts::ValueCounts()
    : shift_(64 - kLeastBits), slots_(size_t{1} << kLeastBits) {}

size_t ValueCounts::place(uint32_t value) const {
  size_t at = home(value, shift_);
  while (slots_[at].records != 0 && slots_[at].value != value)
    at = (at + 1) & (slots_.size() - 1);
  return at;
}

void ValueCounts::grow() {
  std::vector<Slot> before(slots_.size() * 2);
  before.swap(slots_);
  --shift_;
  for (const Slot& slot : before)
    if (slot.records != 0) slots_[place(slot.value)] = slot;
}

void ValueCounts::add(std::span<const ClickKey> keys,
                      const uint8_t* is_left_out) {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kAhead < keys.size())
      __builtin_prefetch(
          &slots_[home(static_cast<uint32_t>(keys[i + kAhead]), shift_)]);
    if (is_left_out[i] != 0) continue;
    if (keys[i] == kMissingKey) {
      ++missing_;
      continue;
    }
    const auto value = static_cast<uint32_t>(keys[i]);
    Slot& slot = slots_[place(value)];
    const bool is_new = slot.records == 0;
    slot.value = value;
    if (slot.records != UINT32_MAX) ++slot.records;
    if (is_new && ++used_ * 2 > slots_.size()) grow();
  }
}

std::vector<CountedValue> ValueCounts::at_least(int64_t threshold) const {
  CHECK(threshold >= 1);
  std::vector<CountedValue> values;
  if (missing_ >= threshold) values.push_back({kMissingKey, missing_});
  for (const Slot& slot : slots_)
    if (slot.records >= threshold) values.push_back({slot.value, slot.records});
  return values;
}

RowTable::RowTable(std::span<const CountedValue> values)
    : shift_(64 - kLeastBits) {
  CHECK(std::ssize(values) < INT32_MAX);
  while ((size_t{1} << (64 - shift_)) < 2 * values.size()) --shift_;
  slots_.resize(size_t{1} << (64 - shift_));
  for (uint32_t row = 1; row <= values.size(); ++row) {
    const ClickKey key = values[row - 1].key;
    if (key == kMissingKey) {
      missing_row_ = row;
      continue;
    }
    const auto value = static_cast<uint32_t>(key);
    slots_[place(value)] = {value, row};
  }
}

size_t RowTable::place(uint32_t value) const {
  size_t at = home(value, shift_);
  while (slots_[at].row != 0 && slots_[at].value != value)
    at = (at + 1) & (slots_.size() - 1);
  return at;
}

void RowTable::find(std::span<const ClickKey> keys, uint32_t* rows) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kAhead < keys.size())
      __builtin_prefetch(
          &slots_[home(static_cast<uint32_t>(keys[i + kAhead]), shift_)]);
    rows[i] = keys[i] == kMissingKey
                  ? missing_row_
                  : slots_[place(static_cast<uint32_t>(keys[i]))].row;
  }
}

}  // namespace syncopate
