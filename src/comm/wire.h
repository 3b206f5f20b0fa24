// Wire format: fp32 values unchanged, or rounded to bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/bf16.h"
#include "base/choice.h"

namespace syncopate {

CHOICE(Wire, "fp32 bf16", {kF32, kBf16});

constexpr int64_t wire_bytes(Wire wire, int64_t elems) {
  return elems * (wire == Wire::kBf16 ? 2 : 4);
}

// Ranges without values (device/device.h) are left alone.
void pack_bf16(uint16_t* packed, const float* values, int64_t elems);
void unpack_bf16(float* values, const uint16_t* packed, int64_t elems);
// Rounds to the values that a receiver would get.
void round_to_bf16(float* values, int64_t elems);

}  // namespace syncopate
