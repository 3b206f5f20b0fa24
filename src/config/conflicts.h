// Keys that are each in order and do not go together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "config/options.h"

namespace syncopate {

// Calls complain(key, what) for each conflict. A conflict in which a key takes
// part for which is_sound(key) is false (misspelt, not in use) is left out:
// that key has its own line.
void find_conflicts(
    const Options& options,
    const std::function<bool(const std::string& key)>& is_sound,
    const std::function<void(const std::string& key, const std::string& what)>&
        complain);

}  // namespace syncopate
