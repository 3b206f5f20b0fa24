// Signs with a scale, and stochastic quantisation, of flat ranges, packed into
// 32-bit words for the wire; scales and norms are per tensor.
//
// Everything is in the memory of the context's device. Unused bits of words are
// zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"
#include "ops/segments.h"

namespace syncopate {

// Returns the number of words for `elems` values of `bits` each. A group of 32
// elements takes exactly `bits` words; element i of a group takes bits
// [i * bits, (i + 1) * bits), lowest first.
constexpr int64_t packed_words(int64_t elems, int64_t bits) {
  return (elems + 31) / 32 * bits;
}

// scale of a tensor = |x|_1 / elements; one bit per element, 1 for negative.
// (Karimireddy et al. 2019, sign with the l1 mean.) -0.0 and 0 pack as 0.
//   words   (packed_words(D, 1))     scales  (tensors)     x  (D)
void sign_encode(Context& context,
                 std::span<uint32_t> words,
                 std::span<float> scales,
                 std::span<const float> x,
                 const Segments& segments);
// y = a * y + b * q, where q is -scale or +scale; zero bits mean +scale. If a
// is 0, y is assigned and may have been uninitialized.
void sign_blend(Context& context,
                std::span<float> y,
                std::span<const uint32_t> words,
                std::span<const float> scales,
                const Segments& segments,
                float a,
                float b);

// Alistarh et al. 2017, per tensor of d elements with s levels:
//   l = s |x| / |x|_2,   xi = floor(l) + [u < l - floor(l)]
//   q = c sign(x) |x|_2 xi / s,   c = 1, or biased 1 / (1 + min(d / s^2,
//   sqrt(d) / s))
// u of element i: 24 bits of Philox(seed, kQuantize, worker, step), counter i.
// An element takes a sign bit (lowest) and bits_of_level(s) bits for xi. A zero
// tensor has norm 0 and q = 0.
struct QsgdParams {
  int64_t levels;
  bool is_biased;
};
struct Draw {
  uint64_t seed;
  uint64_t worker;
  uint64_t step;
};
constexpr int64_t bits_of_level(int64_t levels) {
  int64_t bits = 0;
  while (levels >> bits) ++bits;
  return bits;
}
//   words  (packed_words(D, 1 + bits_of_level(levels)))    norms  (tensors)
void qsgd_encode(Context& context,
                 std::span<uint32_t> words,
                 std::span<float> norms,
                 std::span<const float> x,
                 const Segments& segments,
                 const QsgdParams& params,
                 const Draw& draw);
// Assigns y = a * y + b * q; if a is 0, y may have been uninitialized.
void qsgd_blend(Context& context,
                std::span<float> y,
                std::span<const uint32_t> words,
                std::span<const float> norms,
                const Segments& segments,
                const QsgdParams& params,
                float a,
                float b);

}  // namespace syncopate
