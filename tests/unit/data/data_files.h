// Small generated data files, and what their readers are to say about faults.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "base/file.h"
#include "data/images/dataset.h"
#include "data/options.h"
#include "support/scratch_folder.h"

namespace syncopate {

inline void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

inline std::string read_bytes(const fs::path& path) {
  return read_file(path);
}

inline void write_gz(const fs::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

inline std::string be32(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// Pixel i of a file has the value (7 i + salt) mod 256.
inline std::string idx_images(uint32_t n, uint32_t h, uint32_t w, int salt) {
  std::string bytes = be32(0x803) + be32(n) + be32(h) + be32(w);
  for (uint32_t i = 0; i < n * h * w; ++i)
    bytes += static_cast<char>((7 * i + static_cast<uint32_t>(salt)) % 256);
  return bytes;
}

// Label i is i mod classes.
inline std::string idx_labels(uint32_t n, uint32_t classes) {
  std::string bytes = be32(0x801) + be32(n);
  for (uint32_t i = 0; i < n; ++i) bytes += static_cast<char>(i % classes);
  return bytes;
}

inline const char* const kIdxFiles[] = {
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

// 6 train and 4 test images of 3 x 5, 3 classes.
inline std::string idx_content(const std::string& name) {
  if (name == kIdxFiles[0]) return idx_images(6, 3, 5, 1);
  if (name == kIdxFiles[1]) return idx_labels(6, 3);
  if (name == kIdxFiles[2]) return idx_images(4, 3, 5, 2);
  return idx_labels(4, 3);
}

inline void write_idx_folder(const ScratchFolder& folder) {
  for (const std::string name : kIdxFiles)
    write_bytes(folder / name, idx_content(name));
}

inline DataOptions options_for(const std::string& kind,
                               const std::string& path) {
  DataOptions options;
  options.kind = kind;
  options.path = path;
  return options;
}

// The Error of load_dataset; fails the test if there is none.
inline Error load_error(const DataOptions& options) {
  try {
    load_dataset(options);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "loaded without an error";
  return Error(ExitCode::kDone, "");
}

inline void expect_error(const DataOptions& options,
                         ExitCode code,
                         const std::string& line) {
  const Error error = load_error(options);
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_EQ(std::string(error.what()), line);
}

inline void expect_error_has(const DataOptions& options,
                             ExitCode code,
                             const std::string& part) {
  const Error error = load_error(options);
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
      << error.what() << "\n  lacks: " << part;
}

}  // namespace syncopate
