// One value: from text to its place, back to its canonical text, and in words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keys/key.h"

namespace syncopate {

// Writes `text` to `target`, the key's place in some options; or says what is
// wrong and what would be accepted, and leaves the options alone.
std::optional<std::string> parse_value(const Key& key,
                                       std::string_view text,
                                       const Target& target);

// The canonical text: parse_value of it gives the same value. Numbers are the
// shortest that read back to the same bits.
std::string format_value(const Key& key, const Target& target);
std::string format_length(const Length& length);  // "2.5 epochs"

// "a whole number >= 1", "ring or native", ...
std::string accepted_values(const Key& key);

// The items of a list, separated by commas, or by blanks where there is no
// comma.
std::vector<std::string> list_items(std::string_view text);
// "a, b or c"
std::string in_words(const std::vector<std::string>& words);
// The text in quotes, short and printable.
std::string in_quotes(std::string_view text);

}  // namespace syncopate
