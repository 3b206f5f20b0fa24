// The name of a function from its address, for reports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace syncopate::emulator {

// "syncopate::(anonymous namespace)::sum_kernel<float>": demangled, without
// parameters; the address in hex where the symbols were stripped. Read from
// the file's own symbol table, since dladdr() does not know local functions.
std::string name_of_function(const void* address);

}  // namespace syncopate::emulator
