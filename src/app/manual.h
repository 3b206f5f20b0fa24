// The man page and the shell completion, from the tables of commands and keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace syncopate {

// A page of section 1 in man(7)'s macros: `syncopate help man | man -l -`.
std::string man_page();

// Functions for bash that complete commands, keys and the words that a key
// accepts: `source <(syncopate help completion)`.
std::string bash_completion();

}  // namespace syncopate
