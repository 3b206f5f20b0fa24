// Images with labels in any supported format: in memory, in a mapped file or as
// JPEG files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

// The sum and the sum of squares of some bytes of one channel.
struct PixelSums {
  int64_t sum = 0, squares = 0;
  PixelSums& operator+=(const PixelSums& other) {
    sum += other.sum;
    squares += other.squares;
    return *this;
  }
};
// Adds pixels (n, C) to `sums` (C).
void add_pixels(std::span<const uint8_t> pixels, std::span<PixelSums> sums);

// Bytes (samples, H, W, C) in a file that `prepare images` wrote.
struct MappedImages {
  MappedBlocks blocks;  // of whole images
  int64_t H = 0, W = 0;
  // Set in the train set only, one of the two: `sums` (samples, C), or `total`
  // (C) of all images if the folder does not have the sums of each.
  std::vector<PixelSums> sums, total;

  std::span<const uint8_t> bytes() const { return blocks.file->bytes(); }
};

// Files of any size, decoded whenever they are read.
struct JpegFiles {
  fs::path folder;                 // .../train
  std::vector<std::string> names;  // "CLASS/FILE", by sample
  fs::path path(int64_t sample) const {
    return folder / names[static_cast<size_t>(sample)];
  }
};

struct ImageSet {
  ImageSpec spec;  // the network's input
  int64_t samples = 0;
  // Pixels as stored, (samples, H, W, C): bytes (0..255) or floats. Pixels in
  // memory have the size of `spec`; others may differ from it.
  std::
      variant<std::vector<uint8_t>, std::vector<float>, MappedImages, JpegFiles>
          pixels;
  std::vector<int32_t> labels;  // (samples), in [0, spec.classes)
  // Only test sets may lack labels, which are then -1: for predict.
  bool is_labelled = true;
  std::vector<std::string> class_names;  // empty, or one per class
  // XXH3-128 of the shape and of the XXH3-128 of pixels and labels; for JPEG
  // files the names replace the pixels.
  std::string digest;
  // Evaluation resizes the shorter side of mapped and JPEG images to this many
  // pixels and then crops the centre.
  int64_t eval_resize = 0;
  std::shared_ptr<ThreadPool> pool;  // fills batches; null: no helpers

  // Images of one size in memory or in a mapped file.
  struct Resident {
    int64_t H = 0, W = 0;  // as stored
    std::span<const uint8_t> bytes;
    std::span<const float> floats;  // at most one is not empty
  };
  // Both spans are empty for JPEG files.
  Resident resident() const;
  // Asks the kernel to start reading the whole of a mapped file.
  void read_ahead() const;
  int64_t memory_bytes() const;  // of pixels in memory
  bool is_bytes() const {
    return !std::holds_alternative<std::vector<float>>(pixels);
  }
};

struct Dataset {
  ImageSet train;  // empty, with the test set's `spec`, if has_train() is false
  ImageSet test;
  std::string source;  // "idx /usr/share/...", for the log and provenance

  bool has_train() const { return train.samples > 0; }
};

// Reads the train and test sets. Errors: kInputMissing, or kBadInput
// "FILE: offset N: what, expected, found".
Dataset load_dataset(const DataOptions& options);

// Throws Error(kBadInput) if the test set lacks labels.
void require_labels(const Dataset& data);

// data.height and data.width with defaults applied.
struct PixelSize {
  int64_t H, W;
};
PixelSize image_size(const DataOptions& options);

}  // namespace syncopate
