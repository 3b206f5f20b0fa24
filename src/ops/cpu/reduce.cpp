#include <bit>
#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"

namespace syncopate::cpu {

constexpr int64_t kChunk = 16384;  // elements: 64 KiB, a few us on one core

double dot(Context& context,
           std::span<const float> x,
           std::span<const float> y) {
  const int64_t n = std::ssize(x);
  const int64_t chunks = ceil_div(n, kChunk);
  auto* partial =
      static_cast<double*>(context.scratch(chunks * int64_t{sizeof(double)}));
  const float* a = x.data();
  const float* b = y.data();
  parallel_for(context, chunks, n, [&](int64_t chunk) {
    D16 sum = {};
    for_vectors(chunk * kChunk, std::min(n, (chunk + 1) * kChunk),
                [&](auto lanes, int64_t i) {
                  sum +=
                      to_double(lanes.get(a + i)) * to_double(lanes.get(b + i));
                });
    partial[chunk] = 0;
    for (int lane = 0; lane < kLanes; ++lane) partial[chunk] += sum[lane];
  });
  double total = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) total += partial[chunk];
  return total;
}

int64_t first_nonfinite(Context& context, std::span<const float> x) {
  constexpr uint32_t kExponent = 0x7F800000;  // all ones: infinity or NaN
  const int64_t n = std::ssize(x);
  const int64_t chunks = ceil_div(n, kChunk);
  auto* first =
      static_cast<int64_t*>(context.scratch(chunks * int64_t{sizeof(int64_t)}));
  const float* from = x.data();
  parallel_for(context, chunks, n, [&](int64_t chunk) {
    const int64_t begin = chunk * kChunk, end = std::min(n, begin + kChunk);
    U16 largest = {};
    for_vectors(begin, end, [&](auto lanes, int64_t i) {
      const U16 exponent =
          reinterpret_cast<U16>(lanes.get(from + i)) & kExponent;
      largest = exponent > largest ? exponent : largest;
    });
    first[chunk] = -1;
    for (int lane = 0; lane < kLanes; ++lane)
      if (largest[lane] == kExponent) first[chunk] = begin;
    if (first[chunk] < 0) return;
    while (__builtin_isfinite(from[first[chunk]])) ++first[chunk];
  });
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    if (first[chunk] >= 0) return first[chunk];
  return -1;
}

// The digest is a sum of words, each a bijection of a value's bits and
// position: it needs no order, and changing a single value always changes it.
template <typename Word>
[[gnu::always_inline]] inline Word scramble(Word word) {
  word ^= word >> 32;
  word *= kDigestFactor;
  word ^= word >> 29;
  word *= kDigestFactor;
  return word ^ (word >> 32);
}

uint64_t digest(Context& context, std::span<const float> x) {
  using U64x16 = uint64_t __attribute__((vector_size(128)));
  const int64_t n = std::ssize(x);
  const int64_t chunks = ceil_div(n, kChunk);
  auto* partial = static_cast<uint64_t*>(
      context.scratch(chunks * int64_t{sizeof(uint64_t)}));
  const float* from = x.data();
  parallel_for(context, chunks, n, [&](int64_t chunk) {
    const int64_t end = std::min(n, (chunk + 1) * kChunk);
    int64_t i = chunk * kChunk;
    U64x16 sums = {}, places = {};
    for (int lane = 0; lane < kLanes; ++lane)
      places[lane] = static_cast<uint64_t>(i + lane) << 32;
    for (; i + kLanes <= end; i += kLanes) {
      const U16 bits = reinterpret_cast<U16>(load(from + i));
      sums += scramble(places | __builtin_convertvector(bits, U64x16));
      places += uint64_t{kLanes} << 32;
    }
    uint64_t sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += sums[lane];
    for (; i < end; ++i)
      sum += scramble(static_cast<uint64_t>(i) << 32 |
                      std::bit_cast<uint32_t>(from[i]));
    partial[chunk] = sum;
  });
  uint64_t total = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) total += partial[chunk];
  return total;
}

void clip_factor(Context& context,
                 float* factor,
                 std::span<const float> gradient,
                 double scale,
                 double limit) {
  const double norm = scale * std::sqrt(cpu::dot(context, gradient, gradient));
  // The constant avoids 0 / 0, as is customary.
  *factor = static_cast<float>(limit / (norm + 1e-6));
  if (*factor > 1) *factor = 1;  // keeps NaN
}

}  // namespace syncopate::cpu
