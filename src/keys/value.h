// Parses a key's value, formats it, and describes what the key accepts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keys/key.h"

namespace syncopate {

// Parses `text` into `target`, the key's location in some options. On failure,
// returns what is wrong and what would be accepted, and changes nothing.
std::optional<std::string> parse_value(const Key& key,
                                       std::string_view text,
                                       const Target& target);

// Returns the canonical text, which parse_value turns into the same value.
// Numbers have the fewest digits that read back to the same bits.
std::string format_value(const Key& key, const Target& target);
std::string format_length(const Length& length);  // "2.5 epochs"

// "a whole number >= 1", "ring or native", ...
std::string accepted_values(const Key& key);

// Returns the items of a list that is separated by commas or, if it has none,
// by blanks.
std::vector<std::string> list_items(std::string_view text);
// "a, b or c"
std::string in_words(const std::vector<std::string>& words);
// Returns the text in quotes, shortened and printable.
std::string in_quotes(std::string_view text);

}  // namespace syncopate
