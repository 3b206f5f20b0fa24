#include "keys/value.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/check.h"
#include "base/text.h"

namespace syncopate {
namespace {

bool is_in_bounds(const Key& key, double value) {
  return (key.is_low_open ? value > key.low : value >= key.low) &&
         (key.is_high_open ? value < key.high : value <= key.high);
}

bool is_choice(const Key& key, const std::string& word) {
  return key.choices.empty() || std::ranges::count(key.choices, word) > 0;
}

// parse_one() assigns the value and returns true, or returns false.
bool parse_one(const Key& key, std::string_view text, std::string& out) {
  const std::string word(text);
  if (!is_choice(key, word)) return false;
  if (key.form.matches != nullptr && !key.form.matches(word)) return false;
  out = word;
  return true;
}

// The number of a closed choice.
bool parse_one(const Key& key, std::string_view text, uint8_t& out) {
  if (!is_choice(key, std::string(text))) return false;
  const std::vector<std::string>& words = key.place.words();
  out = static_cast<uint8_t>(std::ranges::find(words, text) - words.begin());
  return true;
}

template <typename Integer>
requires std::is_integral_v<Integer>
bool parse_one(const Key& key, std::string_view text, Integer& out) {
  const auto value = parse_int(text);
  if (!value || !is_in_bounds(key, static_cast<double>(*value))) return false;
  out = static_cast<Integer>(*value);
  return true;
}

bool parse_one(const Key& key, std::string_view text, double& out) {
  const auto value = parse_double(text);
  if (!value || !is_in_bounds(key, *value)) return false;
  out = *value + 0.0;  // -0 becomes 0
  return true;
}

bool parse_one(const Key&, std::string_view text, bool& out) {
  if (text != "yes" && text != "no" && text != "true" && text != "false" &&
      text != "on" && text != "off")
    return false;
  out = text == "yes" || text == "true" || text == "on";
  return true;
}

// "500", "500 steps", "2.5 epochs"; fractions of steps are not accepted.
bool parse_one(const Key& key, std::string_view text, Length& out) {
  const size_t unit_begin = std::min(text.find("epoch"), text.find("step"));
  std::string_view unit;
  if (unit_begin != std::string_view::npos) {
    unit = text.substr(unit_begin);
    text = trim(text.substr(0, unit_begin));
  }
  const bool in_epochs = unit == "epochs" || unit == "epoch";
  if (!in_epochs && !unit.empty() && unit != "steps" && unit != "step")
    return false;
  const auto value = parse_double(text);
  if (!value || !is_in_bounds(key, *value)) return false;
  if (!in_epochs && *value != std::floor(*value)) return false;
  out = {*value + 0.0, in_epochs && *value != 0};
  return true;
}

// "60, 120, 160 epochs": a unit after the last number applies to all.
void spread_unit(std::vector<std::string>& items) {
  const std::string& last = items.back();
  const size_t blank = last.find(' ');
  if (blank == std::string::npos) return;
  const std::string unit = last.substr(blank);
  for (size_t i = 0; i + 1 < items.size(); ++i)
    if (!parse_double(items[i])) return;
  for (size_t i = 0; i + 1 < items.size(); ++i) items[i] += unit;
}

template <typename T>
bool parse_one(const Key& key, std::string_view text, std::vector<T>& out) {
  std::vector<T> values;
  std::vector<std::string> items;
  if constexpr (std::is_same_v<T, Length>) {
    items = split(text, ',');
    spread_unit(items);
  } else {
    items = list_items(text);
  }
  for (const std::string& item : items) {
    if (item.empty() || !parse_one(key, item, values.emplace_back()))
      return false;
    if constexpr (std::is_same_v<T, std::string>)
      if (!key.choices.empty() &&
          std::count(values.begin(), values.end(), values.back()) > 1)
        return false;
  }
  out = std::move(values);
  return true;
}

template <typename T>
std::string format_one(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "yes" : "no";
  else if constexpr (std::is_same_v<T, Length>)
    return format_length(value);
  else
    return fmt::format("{}", value);
}
template <typename T>
std::string format_one(const std::vector<T>& values) {
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(format_one(value));
  return join(items, std::is_same_v<T, Length> ? ", " : " ");
}

template <typename T>
bool is_zero(const T& value) {
  if constexpr (std::is_arithmetic_v<T>)
    return value == T{0};
  else if constexpr (std::is_same_v<T, Length>)
    return false;
  else
    return value.empty();
}

// Large and small powers of ten as "1e9", "1e-6".
std::string bound_text(double bound) {
  constexpr double kManyDigits = 6;
  const double digits = std::log10(bound);
  return bound > 0 && digits == std::round(digits) &&
                 std::abs(digits) >= kManyDigits
             ? fmt::format("1e{:.0f}", digits)
             : fmt::format("{}", bound);
}

std::string bounded(const Key& key, const std::string& what) {
  if (!std::isfinite(key.low)) return what;
  const std::string low = bound_text(key.low);
  const std::string above =
      fmt::format("{} {} {}", what, key.is_low_open ? ">" : ">=", low);
  if (!std::isfinite(key.high)) return above;
  const std::string high = bound_text(key.high);
  if (!key.is_low_open && !key.is_high_open)
    return fmt::format("{} from {} to {}", what, low, high);
  return fmt::format("{} and {} {}", above,
                     key.is_high_open ? "<" : "<=", high);
}

template <typename T>
std::string accepted_by_type(const Key& key) {
  if constexpr (std::is_same_v<T, bool>)
    return "yes or no";
  else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, uint8_t>)
    return bounded(key, "a whole number");
  else if constexpr (std::is_floating_point_v<T>)
    return bounded(key, "a number");
  else if constexpr (std::is_same_v<T, Length>)
    return fmt::format("a length{} such as 500, 500 steps or 2.5 epochs",
                       key.is_low_open ? " > 0" : "");
  else if constexpr (std::is_same_v<T, std::vector<Length>>)
    return "lengths such as 500, 1000 or 60, 120, 160 epochs";
  else if constexpr (std::is_same_v<T, std::vector<double>>)
    return bounded(key, "a list of numbers");
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return key.choices.empty() ? "a list of words"
                               : fmt::format("a list of {}, each at most once",
                                             in_words(key.choices));
  else
    return key.form.matches != nullptr ? std::string(key.form.accepts)
           : key.choices.empty()       ? std::string("text")
                                       : in_words(key.choices);
}

// Returns the choice that a misspelled word, or a list's first wrong word, is
// closest to.
std::string hint(const Key& key, std::string_view text) {
  if (key.choices.empty()) return "";
  for (const std::string& word : list_items(text)) {
    if (is_choice(key, word)) continue;
    const auto meant = nearest(word, key.choices);
    return meant ? fmt::format(" (did you mean {}?)", *meant) : "";
  }
  return "";
}

}  // namespace

std::vector<std::string> list_items(std::string_view text) {
  if (text.find(',') != std::string_view::npos) return split(text, ',');
  std::vector<std::string> items;
  for (std::string& item : split(text, ' '))
    if (!item.empty()) items.push_back(std::move(item));
  return items;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 60;  // keeps an error on its line
  std::string shown;
  for (const char c : text.substr(0, kLongest))
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() > kLongest) shown += "...";
  return '"' + shown + '"';
}

std::string in_words(const std::vector<std::string>& words) {
  if (words.size() < 2) return join(words, "");
  const std::span<const std::string> all(words);
  return join(all.first(all.size() - 1), ", ") + " or " + words.back();
}

std::string format_length(const Length& length) {
  if (length.value == 0) return "0";
  return fmt::format("{} {}{}", length.value,
                     length.in_epochs ? "epoch" : "step",
                     length.value == 1 ? "" : "s");
}

std::string accepted_values(const Key& key) {
  const std::string rest = std::visit(
      [&](auto* value) {
        return accepted_by_type<std::decay_t<decltype(*value)>>(key);
      },
      key.place.type());
  // A list whose empty form is spelt as one of its values ("1") needs no word.
  if (key.zero_word.empty() || parse_double(key.zero_word)) return rest;
  return fmt::format("{} or {}", key.zero_word, rest);
}

std::optional<std::string> parse_value(const Key& key,
                                       std::string_view text,
                                       const Target& target) {
  const std::string_view value_text = trim(text);
  if (value_text.empty())
    return fmt::format("has no value, expected {}", accepted_values(key));
  const bool is_good = std::visit(
      [&](auto* value) {
        if (!key.zero_word.empty() && value_text == key.zero_word) {
          *value = std::decay_t<decltype(*value)>{};
          return true;
        }
        return parse_one(key, value_text, *value);
      },
      target);
  if (is_good) return std::nullopt;
  return fmt::format("expected {}, found {}{}", accepted_values(key),
                     in_quotes(value_text), hint(key, value_text));
}

std::string format_value(const Key& key, const Target& target) {
  return std::visit(
      [&](const auto* value) {
        if (!key.zero_word.empty() && is_zero(*value)) return key.zero_word;
        if constexpr (std::is_same_v<decltype(value), const uint8_t*>)
          return key.place.words().at(*value);
        else
          return format_one(*value);
      },
      target);
}

}  // namespace syncopate
