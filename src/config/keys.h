// Every key of the input, collected from the owners of the options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/options.h"
#include "keys/key.h"

namespace syncopate {

// In the order of documentation and echo; keys of a section are adjacent.
const std::vector<Key>& key_table();
const Key* find_key(std::string_view name);  // nullptr: none
std::vector<std::string> section_names();

}  // namespace syncopate
