// SPDX-License-Identifier: Apache-2.0
#include "comm/wire.h"

#include <bit>

#include "device/device.h"

namespace syncopate {

uint16_t bf16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  // A NaN's payload may be only in the low half: keep it a (quiet) NaN.
  const uint32_t nan = (bits >> 16) | 0x40u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? nan : rounded);
}

float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

void pack_bf16(uint16_t* packed, const float* values, int64_t elems) {
  if (!has_values(values)) return;
  for (int64_t i = 0; i < elems; ++i) packed[i] = bf16_of(values[i]);
}

void unpack_bf16(float* values, const uint16_t* packed, int64_t elems) {
  if (!has_values(values)) return;
  for (int64_t i = 0; i < elems; ++i) values[i] = from_bf16(packed[i]);
}

void round_to_bf16(float* values, int64_t elems) {
  if (!has_values(values)) return;
  for (int64_t i = 0; i < elems; ++i) values[i] = from_bf16(bf16_of(values[i]));
}

}  // namespace syncopate
