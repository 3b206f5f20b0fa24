// The seal of a single HDF5 file: a digest that travels inside it.
//
// A sealed file starts with a 512-byte HDF5 user block that holds the XXH3-128
// of all bytes after it, so a reader can verify that the file is complete
// before HDF5 sees it. Other HDF5 programs skip the block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/file.h"

namespace syncopate {

enum class Seal : uint8_t { kNone, kDigest };

inline constexpr int64_t kSealBytes = 512;  // the smallest user block HDF5
                                            // allows

// Fills in the user block of a file created with room for it.
void write_seal(const fs::path& path);

// Whether the file begins as a seal does, which need not match.
bool is_sealed(const fs::path& path);

// Throws Error(kBadInput) unless the file has a seal that matches every byte.
void check_seal(const fs::path& path);

}  // namespace syncopate
