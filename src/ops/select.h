// Selects a few elements of each tensor of a flat range, the largest or random
// ones, as values and places for the wire.
//
// Everything is in the memory of the context's device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/context.h"
#include "ops/quantize.h"
#include "ops/segments.h"

namespace syncopate {

// Returns how many elements of a tensor are kept:
// max(1, int(elems * (1 - dropped))) in double precision, as CHOCO-SGD counts
// (dropping 0.9 keeps 99 of 1000).
int64_t kept_of(int64_t elems, double dropped);
std::vector<int64_t> kept_elems(const Segments& segments, double dropped);

// Offsets of each tensor's kept elements in `values` and `places`.
class Selection {
 public:
  Selection(Context& context,
            const Segments& segments,
            std::vector<int64_t> kept);
  int64_t total() const { return begins_.back(); }
  int64_t begin(int64_t segment) const { return begins_[segment]; }
  int64_t kept(int64_t segment) const {
    return begins_[segment + 1] - begins_[segment];
  }
  const int64_t* device_begins() const { return device_begins_.data(); }

 private:
  std::vector<int64_t> begins_;  // per tensor, followed by the total
  DeviceVector<int64_t> device_begins_;
};

// Selects the kept(segment) elements of largest |x| of each tensor; ties go to
// the lowest index. places: index in the whole range, ascending. NaN counts as
// larger than everything. D < 2^32.
//   values, places  (selection.total())     x  (D)
void top_k_encode(Context& context,
                  std::span<float> values,
                  std::span<uint32_t> places,
                  std::span<const float> x,
                  const Segments& segments,
                  const Selection& selection);

enum class Scaling : uint8_t { kNone, kScaled };

// Selects kept(segment) distinct elements of each tensor, every subset equally
// likely: those with the largest 32-bit key, ties broken by index (only a tie
// at the threshold can bias the subset, with probability elems / 2^32). The key
// of element i of the range is the i-th word of Rng(seed, kQuantize, worker,
// step). kScaled multiplies values by elems / kept, which makes the result
// unbiased.
void random_k_encode(Context& context,
                     std::span<float> values,
                     std::span<uint32_t> places,
                     std::span<const float> x,
                     const Segments& segments,
                     const Selection& selection,
                     const Draw& draw,
                     Scaling scaling);

// Assigns y[place] = a * y[place] + b * value for the given places, each of
// which occurs once; other elements are unchanged. a == 0 assigns b * value.
void sparse_blend(Context& context,
                  std::span<float> y,
                  std::span<const float> values,
                  std::span<const uint32_t> places,
                  float a,
                  float b);

}  // namespace syncopate
