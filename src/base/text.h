// Small text helpers: splitting, strict number parsing, "did you mean".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace syncopate {

std::string_view trim(std::string_view text);
// The parts between separators, of which there is one more.
std::vector<std::string> divide(std::string_view text, char separator);
// The same without the blanks at the ends of the parts.
std::vector<std::string> split(std::string_view text, char separator);
bool has_control_character(std::string_view text);
std::string join(std::span<const std::string> parts, std::string_view glue);

// The whole text must be a number: "8x", "", " 8" and overflow give nullopt.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);  // finite only

// Returns the candidate with the smallest edit distance to `word`, if it is
// close enough to be a typo (at most a third of its letters, and at most 3).
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates);

// Returns the code point at byte `at` of a text in UTF-8 and moves `at` behind
// it. Invalid UTF-8 gives nullopt and moves `at` by one byte.
std::optional<char32_t> take_code_point(std::string_view text, size_t& at);

// Returns the offset of the first byte that is not valid UTF-8, or nullopt if
// all of `text` is valid.
std::optional<size_t> find_invalid_utf8(std::string_view text);
// Returns `text` with every byte outside printable ASCII as "\xE9", for
// messages about text that cannot be displayed.
std::string escape_bytes(std::string_view text);

// "1 worker", "2 workers"
std::string counted(int64_t count, std::string_view noun);
// "1.23 GB", "45.0 kB"; powers of 1000
std::string human_bytes(double bytes);
// "1:02:03", "2:03", "4.5 s"
std::string human_seconds(double seconds);

}  // namespace syncopate
