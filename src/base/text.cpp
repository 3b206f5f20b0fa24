#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace syncopate {

std::string_view trim(std::string_view text) {
  const char* blank = " \t\r\n";
  const size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(trim(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
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

// Edit distance in which two letters swapped count once (optimal string
// alignment), by rows.
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
