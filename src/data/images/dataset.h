// Labelled images in memory, in a mapped file or as JPEG files, read from any
// of the supported formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "data/batch.h"
#include "data/mapped_file.h"
#include "data/options.h"
#include "data/thread_pool.h"

namespace syncopate {

// Number of pixels with each byte, by channel.
using Histogram = std::vector<std::array<int64_t, 256>>;

void add_pixels(std::span<const uint8_t> pixels, Histogram& histogram);

// Of an image's bytes in one channel.
struct PixelSums {
  int64_t sum = 0, squares = 0;
  PixelSums& operator+=(const PixelSums& other) {
    sum += other.sum;
    squares += other.squares;
    return *this;
  }
};

// Bytes (samples, H, W, C) in a file, as `prepare images` writes them.
struct MappedImages {
  std::shared_ptr<const MappedFile> file;
  int64_t H = 0, W = 0;
  // In the train set only, one of the two: (samples, C), and in folders of
  // earlier versions the histogram of all pixels.
  std::vector<PixelSums> sums;
  Histogram histogram;
  // XXH3-128 of each `block_images` images.
  std::vector<std::string> block_digests;
  int64_t block_images = 0;
};

// Files of any size, decoded each time that they are asked for.
struct JpegFiles {
  fs::path folder;                 // .../train
  std::vector<std::string> names;  // "CLASS/FILE", by sample
  fs::path path(int64_t sample) const {
    return folder / names[static_cast<size_t>(sample)];
  }
};

struct ImageSet {
  ImageSpec spec;  // what a network is fed
  int64_t samples = 0;
  // Pixels as stored, (samples, H, W, C): bytes (0..255) or floats as given.
  // Those in memory have the size of `spec`, others may have another one.
  std::
      variant<std::vector<uint8_t>, std::vector<float>, MappedImages, JpegFiles>
          pixels;
  std::vector<int32_t> labels;           // (samples), in [0, spec.classes)
  std::vector<std::string> class_names;  // empty or spec.classes
  // XXH3-128 of shape and of pixels' and labels' XXH3-128; of JPEG files the
  // names stand for the pixels.
  std::string digest;
  // Evaluation of mapped and JPEG images: the shorter side becomes so many
  // pixels, then the middle is cut out.
  int64_t eval_resize = 0;
  std::shared_ptr<ThreadPool> pool;  // fills batches; null: the caller alone

  // Images of one size that lie in the address space.
  struct Resident {
    int64_t H = 0, W = 0;  // as stored
    std::span<const uint8_t> bytes;
    std::span<const float> floats;  // one of the two is empty, or both
  };
  // Both spans are empty for JPEG files.
  Resident resident() const;
  // Asks the system to begin to read all of a mapped file, of which everything
  // is about to be used.
  void read_ahead() const;
  int64_t memory_bytes() const;  // of pixels that were loaded
  bool is_bytes() const {
    return !std::holds_alternative<std::vector<float>>(pixels);
  }
};

struct Dataset {
  ImageSet train;
  ImageSet test;
  std::string source;  // "idx /usr/share/...", for log and provenance
};

// Reads train and test. Errors: Error(kInputMissing), or Error(kBadInput)
// "FILE: offset N: what, expected, found".
Dataset load_dataset(const DataOptions& options);

// height and width with their defaults filled in.
struct PixelSize {
  int64_t H, W;
};
PixelSize image_size(const DataOptions& options);

}  // namespace syncopate
