// One value: from text to Options, back to its canonical text, and in words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/keys.h"

namespace syncopate {

// Writes `text` into its place in `options`; or says what is wrong and what
// would be accepted, and leaves `options` alone.
std::optional<std::string> parse_value(const Key& key,
                                       std::string_view text,
                                       Options& options);

// The canonical text: parse_value of it gives the same value. Numbers are the
// shortest that read back to the same bits.
std::string format_value(const Key& key, const Options& options);
std::string format_length(const Length& length);  // "2.5 epochs"

// "a whole number >= 1", "ring or native", ...
std::string accepted_values(const Key& key);

// Why the chosen kinds do not use this key: "is used by schedule.kind =
// polynomial, not by cosine"; nothing if they do.
std::optional<std::string> reason_unused(const Key& key,
                                         const Options& options);

// "a, b or c"
std::string in_words(const std::vector<std::string>& words);
// The text in quotes, short and printable.
std::string in_quotes(std::string_view text);

}  // namespace syncopate
