#include "data/clicks/criteo_tsv.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/text.h"
#include "data/clicks/criteo_format.h"

namespace syncopate {
namespace {

// The shortest valid line: a label, a tab before each empty field, '\n'.
constexpr int64_t kLeastLine = kClickFields + 2;

int32_t large_bucket(int64_t value) {
  const double log = std::log(static_cast<double>(value));
  return static_cast<int32_t>(log * log);
}

// Most integers are small; a table avoids the cost of the logarithm.
const std::array<int32_t, 4096>& small_buckets() {
  static const auto table = [] {
    std::array<int32_t, 4096> buckets{};
    for (int32_t v = 0; v < 4096; ++v)
      buckets[static_cast<size_t>(v)] = v > 2 ? large_bucket(v) : v - 2;
    return buckets;
  }();
  return table;
}

// 0 to 15, or 255.
const std::array<uint8_t, 256>& hexadecimal_digits() {
  static const auto table = [] {
    std::array<uint8_t, 256> digits{};
    digits.fill(255);
    for (uint8_t i = 0; i < 10; ++i) digits['0' + i] = i;
    for (uint8_t i = 0; i < 6; ++i)
      digits['a' + i] = digits['A' + i] = static_cast<uint8_t>(10 + i);
    return digits;
  }();
  return table;
}

// These parse as much as possible of a field at `at` and return the end, or
// null if the value is out of range. The '\n' at the end of the text stops
// them.
const char* take_integer(const char* at, ClickKey& key) {
  const bool is_negative = *at == '-';
  const char* first = at + (is_negative ? 1 : 0);
  uint64_t value = 0;
  at = first;
  for (; *at >= '0' && *at <= '9'; ++at) {
    if (at - first == kClickIntegerDigits) return nullptr;
    value = value * 10 + static_cast<uint64_t>(*at - '0');
  }
  if (at == first) {
    if (is_negative) return nullptr;
    key = kMissingKey;
    return at;
  }
  const auto magnitude = static_cast<int64_t>(value);
  if (is_negative && -magnitude < kClickIntegerLeast) return nullptr;
  key =
      static_cast<uint32_t>(click_bucket(is_negative ? -magnitude : magnitude));
  return at;
}

const char* take_category(const char* at, ClickKey& key) {
  const auto& digits = hexadecimal_digits();
  const char* first = at;
  uint32_t value = 0;
  for (;; ++at) {
    const uint8_t digit = digits[static_cast<uint8_t>(*at)];
    if (digit == 255) break;
    if (at - first == 8) return nullptr;
    value = value << 4 | digit;
  }
  key = at == first ? kMissingKey : value;
  return at;
}

const char* take_field(int64_t field, const char* at, ClickKey& key) {
  return field < kClickIntegers ? take_integer(at, key)
                                : take_category(at, key);
}

std::vector<std::string_view> split_fields(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const size_t tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

// For messages: quoted, truncated, and unprintable bytes as \x00.
std::string shown(std::string_view text) {
  constexpr size_t kShown = 24;
  std::string result = "'";
  for (const char c : text.substr(0, kShown))
    result += c >= ' ' && c <= '~'
                  ? std::string(1, c)
                  : fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  return result + (text.size() > kShown ? "...'" : "'");
}

// Describes the first fault of a line that did not parse.
std::string fault_of(std::string_view line) {
  if (std::ssize(line) > kClickLineLimit)
    return fmt::format(": longer than {} bytes, expected {} fields",
                       kClickLineLimit, kClickFields + 1);
  const auto fields = split_fields(line);
  if (std::ssize(fields) != kClickFields + 1)
    return fmt::format(
        ": {} tab-separated field{}, expected {}: a label, {} integers and {} "
        "categories",
        fields.size(), fields.size() == 1 ? "" : "s", kClickFields + 1,
        kClickIntegers, kClickCategories);
  if (fields[0] != "0" && fields[0] != "1")
    return fmt::format(", field 1 (label): {}, expected 0 or 1",
                       shown(fields[0]));
  for (int64_t field = 0; field < kClickFields; ++field) {
    const std::string text =
        std::string(fields[static_cast<size_t>(field) + 1]) + '\n';
    ClickKey key = 0;
    const char* end = take_field(field, text.c_str(), key);
    if (end == text.c_str() + text.size() - 1) continue;
    const std::string found = fmt::format(
        ", field {} ({}): {}, expected ", field + 2, click_field_name(field),
        shown(fields[static_cast<size_t>(field) + 1]));
    if (field >= kClickIntegers)
      return found + "up to 8 hexadecimal digits or nothing";
    return found + fmt::format(
                       "a whole number of at most {} digits, at least {}, or "
                       "nothing",
                       kClickIntegerDigits, kClickIntegerLeast);
  }
  check_failed("a bad line has a fault", std::string(line.substr(0, 500)),
               std::source_location::current());
}

}  // namespace

int32_t click_bucket(int64_t value) {
  if (value < 0) return static_cast<int32_t>(value - 2);
  const auto& buckets = small_buckets();
  return value < std::ssize(buckets) ? buckets[static_cast<size_t>(value)]
                                     : large_bucket(value);
}

std::string click_value_text(int64_t field, ClickKey key) {
  if (key == kMissingKey) return "";
  const auto bits = static_cast<uint32_t>(key);
  return field < kClickIntegers ? fmt::format("{}", static_cast<int32_t>(bits))
                                : fmt::format("{:08x}", bits);
}

std::optional<ClickKey> click_key_of(int64_t field, const std::string& text) {
  if (text.empty()) return kMissingKey;
  if (field >= kClickIntegers) {
    ClickKey key = 0;
    const char* const end = text.data() + text.size();
    if (take_category(text.c_str(), key) != end) return std::nullopt;
    return key;
  }
  const auto bucket = parse_int(text);
  if (!bucket || *bucket < INT32_MIN || *bucket > INT32_MAX)
    return std::nullopt;
  return static_cast<uint32_t>(static_cast<int32_t>(*bucket));
}

bool click_key_less(int64_t field, ClickKey a, ClickKey b) {
  if (a == kMissingKey || b == kMissingKey)
    return a == kMissingKey && b != kMissingKey;
  return field < kClickIntegers
             ? static_cast<int32_t>(a) < static_cast<int32_t>(b)
             : a < b;
}

// Returns the end of the line, or null if it is not a valid record.
const char* ClickLines::parse_line(const char* at) {
  if (*at != '0' && *at != '1') return nullptr;
  labels_[static_cast<size_t>(records_)] = *at == '1' ? 1 : 0;
  ++at;
  ClickKey* key = keys_.data() + records_;
  for (int64_t field = 0; field < kClickFields; ++field, key += capacity_) {
    if (*at != '\t') return nullptr;
    at = take_field(field, at + 1, *key);
    if (at == nullptr) return nullptr;
  }
  if (*at == '\r') ++at;
  return *at == '\n' ? at : nullptr;
}

void ClickLines::parse(std::string_view text, OnBad on_bad) {
  CHECK(text.empty() || text.back() == '\n');
  records_ = bad_lines_ = bad_line_ = 0;
  fault_.clear();
  const int64_t least = std::ssize(text) / kLeastLine + 1;
  if (least > capacity_) {
    capacity_ = least;
    labels_.resize(static_cast<size_t>(capacity_));
    keys_.resize(static_cast<size_t>(capacity_ * kClickFields));
  }
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    if (const char* line_end = parse_line(at)) {
      ++records_;
      at = line_end + 1;
      continue;
    }
    const auto* line_end = static_cast<const char*>(
        std::memchr(at, '\n', static_cast<size_t>(end - at)));
    if (bad_lines_ == 0) {
      bad_line_ = records_;
      std::string_view line(at, static_cast<size_t>(line_end - at));
      if (line.ends_with('\r')) line.remove_suffix(1);
      fault_ = fault_of(line);
    }
    ++bad_lines_;
    if (on_bad == OnBad::kStop) return;
    at = line_end + 1;
  }
}

}  // namespace syncopate
