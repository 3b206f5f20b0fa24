#include "config/ini.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "keys/value.h"

namespace syncopate {
namespace {

std::string_view without_comment(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t'))
      return text.substr(0, i);
  return text;
}

// `section` is that of the last header, if there was one; a header replaces it.
IniLine parse_line(std::string_view raw, std::optional<std::string>& section) {
  if (raw.front() == '[') {
    const std::string_view header = trim(without_comment(raw));
    if (header.find(']') != header.size() - 1)
      return {.mistake = "expected [section], found " + in_quotes(raw)};
    section = trim(header.substr(1, header.size() - 2));
    return {.section = *section};
  }
  const size_t equals = raw.find('=');
  const std::string_view key = trim(raw.substr(0, equals));
  if (equals == std::string_view::npos || key.empty())
    return {.mistake =
                "expected key = value or [section], found " + in_quotes(raw)};
  if (!section)
    return {.mistake = in_quotes(key) + " comes before the first [section]"};
  const std::string_view value = trim(without_comment(raw.substr(equals + 1)));
  return {.section = *section,
          .key = std::string(key),
          .value = std::string(value)};
}

}  // namespace

std::vector<IniLine> parse_ini(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(3);
  std::vector<IniLine> lines;
  std::optional<std::string> section;
  int number = 0;
  bool is_lost = false;  // the section, because its header is wrong
  for (const std::string& line : split(text, '\n')) {
    ++number;
    const std::string_view raw = trim(line);
    if (raw.empty() || raw.front() == '#' || raw.front() == ';') continue;
    const bool is_header = raw.front() == '[';
    if (is_lost && !is_header) continue;
    lines.push_back(parse_line(raw, section));
    lines.back().number = number;
    is_lost = is_header && !lines.back().mistake.empty();
  }
  return lines;
}

bool is_ini_value(std::string_view value) {
  const bool is_printable =
      std::none_of(value.begin(), value.end(),
                   [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  return is_printable && without_comment(value) == value &&
         trim(value) == value;
}

}  // namespace syncopate
