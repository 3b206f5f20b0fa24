// File names and constants shared by the reader and writer of prepared images.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/file.h"

namespace syncopate {

inline constexpr int64_t kDigestLetters = 32;  // of XXH3-128 in hexadecimal

struct PreparedFiles {
  static constexpr const char* kKind = "syncopate prepared images";
  static constexpr int64_t kVersion = 1;
  static constexpr std::array<const char*, 3> kNames = {
      "images.h5", "train.images", "test.images"};
  static constexpr int64_t kSizeLimit = 4096;  // of a side, in pixels

  explicit PreparedFiles(const fs::path& where)
      : folder(where), header(where / kNames[0]) {}
  fs::path pixels(const std::string& set) const {
    return folder / (set + ".images");
  }

  fs::path folder, header;
};

}  // namespace syncopate
