// The library behind convolutions and matrix products on the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace syncopate {

std::string cpu_library_version();  // of the one in use: "oneDNN 2.6.3"

}  // namespace syncopate
