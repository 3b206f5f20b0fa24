// What lies around emulated memory so that a write beside it shows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace syncopate::emulator {

// 0xFFD5...: a NaN as bf16, float and double, and unlike fresh memory.
inline std::byte pattern_at(const std::byte* address) {
  const bool is_odd = reinterpret_cast<uintptr_t>(address) % 2 != 0;
  return is_odd ? std::byte{0xFF} : std::byte{0xD5};
}

inline void fill_pattern(std::byte* begin, std::byte* end) {
  for (; begin != end; ++begin) *begin = pattern_at(begin);
}

// `end` if nothing was written.
inline const std::byte* first_damage(const std::byte* begin,
                                     const std::byte* end) {
  return std::find_if(begin, end, [](const std::byte& value) {
    return value != pattern_at(&value);
  });
}

}  // namespace syncopate::emulator
