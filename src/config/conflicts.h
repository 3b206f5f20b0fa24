// Finds keys whose values are valid one by one but not together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "config/options.h"

namespace syncopate {

using IsSound = std::function<bool(const std::string& key)>;
using Complain =
    std::function<void(const std::string& key, const std::string& what)>;

// Calls complain(key, what) for each conflict. Conflicts that involve a key for
// which is_sound(key) is false (misspelled, not in use) are left out, because
// that key already has an error line.
void find_conflicts(const Options& options,
                    const IsSound& is_sound,
                    const Complain& complain);

}  // namespace syncopate
