// Places in kernels where lanes wait, for comparing and for reports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>

#include "emulator/lanes.h"

namespace syncopate::emulator {

bool is_same_site(const std::source_location& a, const std::source_location& b);
std::string text_of_site(const std::source_location& site);  // "norm.cu:41"
// "__shfl_sync(mask 0x0000ffff) (norm.cu:41)"
std::string text_of_call(const WarpCall& call);

}  // namespace syncopate::emulator
