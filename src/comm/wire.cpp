// SPDX-License-Identifier: Apache-2.0
#include "comm/wire.h"

#include "device/device.h"

namespace syncopate {

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
