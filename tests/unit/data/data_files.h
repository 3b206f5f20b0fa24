// Small generated data files, and what their readers are to say about faults.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/images/dataset.h"
#include "data/options.h"
#include "support/expect_error.h"
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

// `bytes` as a member of a gzip file.
inline std::string gzipped(const std::string& bytes) {
  const ScratchFolder folder;
  write_gz(folder / "a.gz", bytes);
  return read_bytes(folder / "a.gz");
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

// `bytes` with one of them changed.
inline std::string changed_at(std::string bytes, size_t at, int bits = 1) {
  bytes[at] = static_cast<char>(bytes[at] ^ bits);
  return bytes;
}

// The names of the files in a folder, sorted.
inline std::vector<std::string> names_in(const ScratchFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// `samples` images (H, W, C) of two classes in turn, of bytes without a period.
inline ImageSet image_set(int64_t samples, int64_t H, int64_t W, int64_t C) {
  ImageSet set;
  set.samples = samples;
  set.spec = {.C = C, .H = H, .W = W, .classes = 2};
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < samples * H * W * C; ++i)
    pixels.push_back(static_cast<uint8_t>((i * i + 31 * i) % 251));
  set.pixels = std::move(pixels);
  for (int64_t i = 0; i < samples; ++i)
    set.labels.push_back(static_cast<int32_t>(i % 2));
  return set;
}

inline DataOptions options_for(const std::string& kind, const fs::path& path) {
  DataOptions options;
  options.kind = kind;
  options.path = path.string();
  return options;
}

// Expects load_dataset to fail.
inline void expect_error(const DataOptions& options,
                         ExitCode code,
                         const std::string& line) {
  expect_error(code, line, [&] { load_dataset(options); });
}
inline void expect_error_has(const DataOptions& options,
                             ExitCode code,
                             const std::string& part) {
  expect_error_has(code, part, [&] { load_dataset(options); });
}

}  // namespace syncopate
