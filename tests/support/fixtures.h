// Recorded values of independent implementations: where they lie, and the
// numbers that they were computed from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "support/source_dir.h"

namespace syncopate {

// A file of tests/reference/fixtures.
inline std::filesystem::path fixture_path(const std::string& name) {
  return source_dir() / "tests/reference/fixtures" / name;
}

// Element i of a stream: 24 bits, by the formula that the scripts have too.
inline uint64_t made_bits(uint64_t stream, uint64_t i) {
  uint64_t x = i + 1000003 * stream;
  x *= 0x9E3779B97F4A7C15;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93;
  x ^= x >> 32;
  return x >> 40;
}
// In [-0.5, 0.5).
inline double made_uniform(uint64_t stream, uint64_t i) {
  return static_cast<double>(made_bits(stream, i)) / (1 << 24) - 0.5;
}

}  // namespace syncopate
