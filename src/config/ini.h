// Splits an input file into lines, before keys are interpreted.
//
// Boost.Program_options parses the command line (app/command_line.cpp) but not
// input files: its INI parser stops at the first error, reports no line numbers
// and truncates a value at any '#'.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace syncopate {

struct IniLine {
  int number = 0;
  std::string section = {};          // of a header, or that a setting is in
  std::string key = {}, value = {};  // trimmed; a header has no key
  std::string mistake = {};          // empty: none
};

// A line is blank, a comment (# or ; first), [section], or key = value. In the
// last two, a '#' begins a comment if it is first or follows a blank. Returns
// all lines but blank ones and comments.
std::vector<IniLine> parse_ini(std::string_view text);

// Returns whether parse_ini would return this value from "key = value".
bool is_ini_value(std::string_view value);
// What it expects, for messages.
inline constexpr const char* kIniValue =
    "no control characters, no blank at an end, and no # at the start or after "
    "a blank";

}  // namespace syncopate
