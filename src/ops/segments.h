// The tensors inside a flat range, for ops over whole ranges: where each
// begins, and a fixed division into chunks, so that a sum over a tensor does
// not depend on threads or blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device_vector.h"

namespace syncopate {

class Context;

class Segments {
 public:
  // `begins`: offset of each tensor, ascending, followed by the length of the
  // range; no tensor is empty.
  Segments(Context& context, std::vector<int64_t> begins);

  int64_t num_segments() const { return std::ssize(begins_) - 1; }
  int64_t num_elems() const { return begins_.back(); }
  int64_t begin(int64_t segment) const { return begins_[segment]; }
  int64_t elems(int64_t segment) const {
    return begins_[segment + 1] - begins_[segment];
  }

  // A chunk has at most kChunkElems elements of one tensor. Chunks are in
  // order.
  static constexpr int64_t kChunkElems = 4096;
  struct Chunk {
    int64_t begin;
    int32_t elems;
    int32_t segment;
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }
  // The first chunk of each tensor, followed by the number of chunks.
  const std::vector<int64_t>& first_chunks() const { return first_chunks_; }

  // Copies in the context's memory, for kernels.
  const int64_t* device_begins() const { return device_begins_.data(); }
  const Chunk* device_chunks() const { return device_chunks_.data(); }
  const int64_t* device_first_chunks() const {
    return device_first_chunks_.data();
  }

 private:
  std::vector<int64_t> begins_, first_chunks_;
  std::vector<Chunk> chunks_;
  DeviceVector<int64_t> device_begins_, device_first_chunks_;
  DeviceVector<Chunk> device_chunks_;
};

}  // namespace syncopate
