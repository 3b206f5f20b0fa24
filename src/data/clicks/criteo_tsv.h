// Lines of the Criteo Display Advertising Challenge: label, 13 integers and 26
// hexadecimal categories, separated by tabs, empty where missing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace syncopate {

// The value of a field as a number: the 32 bits of an integer's bucket, or the
// hexadecimal value of a category.
using ClickKey = uint64_t;
inline constexpr ClickKey kMissingKey = ClickKey{1} << 32;

inline constexpr int64_t kClickIntegerLeast = -2'147'483'645;
inline constexpr int64_t kClickIntegerDigits = 18;
inline constexpr int64_t kClickLineLimit =
    4096;  // bytes; valid lines have < 500

// The published bucketing: floor(ln(v)^2) for v > 2, otherwise v - 2.
int32_t click_bucket(int64_t value);

// The inverse of parsing, e.g. "", "17" (a bucket) or "68fd1e64".
std::string click_value_text(int64_t field, ClickKey key);

// The inverse of click_value_text; nothing if no key has this text.
std::optional<ClickKey> click_key_of(int64_t field, const std::string& text);

// Orders the keys of a field: the missing key first, then ascending values.
bool click_key_less(int64_t field, ClickKey a, ClickKey b);

// The records of a block of lines, stored by column.
class ClickLines {
 public:
  enum class OnBad { kStop, kSkip };
  // Every line of `text` ends in '\n'.
  void parse(std::string_view text, OnBad on_bad);

  int64_t records() const { return records_; }
  int64_t bad_lines() const { return bad_lines_; }
  // The first bad line: its index in the block, and what is wrong with it, e.g.
  // ", field 3 (I2): 'x', expected ...".
  int64_t bad_line() const { return bad_line_; }
  const std::string& fault() const { return fault_; }

  const uint8_t* labels() const { return labels_.data(); }
  const ClickKey* keys(int64_t field) const {
    return keys_.data() + field * capacity_;
  }

 private:
  const char* parse_line(const char* at);

  int64_t capacity_ = 0, records_ = 0, bad_lines_ = 0, bad_line_ = 0;
  std::string fault_;
  std::vector<uint8_t> labels_;  // (capacity)
  std::vector<ClickKey> keys_;   // (fields, capacity)
};

}  // namespace syncopate
