// Recorded values of independent implementations: where they lie, and the
// numbers that they were computed from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace syncopate {

// A file of tests/reference/fixtures, in the tree that SOURCE_DIR names, if it
// does, else in the one that the test was built from.
inline std::filesystem::path fixture_path(const std::string& name) {
  const char* source = std::getenv("SOURCE_DIR");
  return std::filesystem::path(source != nullptr ? source
                                                 : SYNCOPATE_SOURCE_DIR) /
         "tests/reference/fixtures" / name;
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
