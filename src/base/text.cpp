#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <utf8proc.h>

namespace syncopate {

std::string_view trim(std::string_view text) {
  const char* blank = " \t\r\n";
  const size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::vector<std::string> divide(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts = divide(text, separator);
  for (std::string& part : parts) part = std::string(trim(part));
  return parts;
}

bool has_control_character(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    return std::iscntrl(static_cast<unsigned char>(c)) != 0;
  });
}

std::string join(std::span<const std::string> parts, std::string_view glue) {
  return fmt::format("{}", fmt::join(parts.begin(), parts.end(), glue));
}

template <typename T>
static std::optional<T> parse_all(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end || text.empty()) return std::nullopt;
  return value;
}

std::optional<int64_t> parse_int(std::string_view text) {
  return parse_all<int64_t>(text);
}

std::optional<double> parse_double(std::string_view text) {
  const auto value = parse_all<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

// Returns the edit distance in which a transposition counts once (optimal
// string alignment), computed row by row.
static size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, above, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::move(above);
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1,
                         above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates) {
  const size_t allowed =
      std::min<size_t>(3, std::max<size_t>(1, word.size() / 3));
  std::optional<std::string> best;
  size_t best_distance = allowed + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::optional<char32_t> take_code_point(std::string_view text, size_t& at) {
  utf8proc_int32_t code_point = 0;
  const utf8proc_ssize_t taken = utf8proc_iterate(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
      static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
  at += taken > 0 ? static_cast<size_t>(taken) : 1;
  if (taken <= 0) return std::nullopt;
  return static_cast<char32_t>(code_point);
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!take_code_point(text, at)) return begin;
  }
  return std::nullopt;
}

std::string escape_bytes(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c >= ' ' && c <= '~')
      escaped += c;
    else
      escaped += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string human_bytes(double bytes) {
  const char* unit[] = {"B", "kB", "MB", "GB", "TB"};
  int power = 0;
  while (bytes >= 1000 && power < 4) {
    bytes /= 1000;
    ++power;
  }
  if (power == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.2f} {}", bytes, unit[power]);
}

std::string human_seconds(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto total = static_cast<int64_t>(std::llround(seconds));
  if (total < 3600) return fmt::format("{}:{:02}", total / 60, total % 60);
  return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60,
                     total % 60);
}

}  // namespace syncopate
