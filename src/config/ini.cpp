#include "config/ini.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"
#include "config/value.h"

namespace syncopate {
namespace {

std::string_view without_comment(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t'))
      return text.substr(0, i);
  return text;
}

void parse_line(std::string_view raw, int line, IniFile& file) {
  if (raw.empty() || raw.front() == '#' || raw.front() == ';') return;
  if (raw.front() == '[') {
    const std::string_view header = trim(without_comment(raw));
    const bool is_whole = header.find(']') == header.size() - 1;
    if (!is_whole) {
      file.mistakes.push_back(
          {fmt::format("expected [section], found {}", in_quotes(raw)), line});
      return;
    }
    file.headers.push_back(
        {std::string(trim(header.substr(1, header.size() - 2))), line});
    return;
  }
  const size_t equals = raw.find('=');
  const std::string_view key = trim(raw.substr(0, equals));
  if (equals == std::string_view::npos || key.empty()) {
    file.mistakes.push_back(
        {fmt::format("expected key = value or [section], found {}",
                     in_quotes(raw)),
         line});
    return;
  }
  if (file.headers.empty()) {
    file.mistakes.push_back(
        {fmt::format("{} stands before the first [section]", in_quotes(key)),
         line});
    return;
  }
  const std::string_view value = trim(without_comment(raw.substr(equals + 1)));
  file.settings.push_back({file.headers.back().section, std::string(key),
                           std::string(value), line});
}

}  // namespace

IniFile parse_ini(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(3);
  IniFile file;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    parse_line(trim(text.substr(0, end)), line, file);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return file;
}

bool is_ini_value(std::string_view value) {
  const bool is_printable =
      std::none_of(value.begin(), value.end(),
                   [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  return is_printable && without_comment(value) == value;
}

}  // namespace syncopate
