// Small text helpers: splitting, exact number parsing, "did you mean".
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
std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view glue);

// The whole text must be the number: "8x", "", " 8" and overflow are nullopt.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);  // finite only

// The candidate with the smallest edit distance to `word`, if close enough to
// be a slip of the keyboard (at most a third of its letters, and at most 3).
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates);

// Where `text` stops being valid UTF-8: the offset of the first byte that does
// not belong; nullopt if all of it is valid.
std::optional<size_t> find_invalid_utf8(std::string_view text);
// `text` with every byte outside printable ASCII as "\xE9": for messages about
// text that cannot be shown.
std::string escape_bytes(std::string_view text);

// "1.23 GB", "45.0 kB"; powers of 1000.
std::string human_bytes(double bytes);
// "1:02:03", "2:03", "4.5 s"
std::string human_seconds(double seconds);

}  // namespace syncopate
