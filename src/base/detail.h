// How much a description says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace syncopate {

enum class Detail : uint8_t { kOutline, kAll };

}  // namespace syncopate
