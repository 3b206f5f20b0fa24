// The value of a key in Options, and whether the other values make use of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/keys.h"
#include "keys/value.h"

namespace syncopate {

// As in keys/value.h, for the key's location in `options`.
std::optional<std::string> parse_value(const Key& key,
                                       std::string_view text,
                                       Options& options);
std::string format_value(const Key& key, const Options& options);

// Returns why the chosen kinds do not use this key, such as "is used by
// schedule.kind = polynomial, not by cosine", or nullopt if they do.
std::optional<std::string> reason_unused(const Key& key,
                                         const Options& options);

}  // namespace syncopate
