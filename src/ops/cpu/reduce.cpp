#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "ops/bodies.h"
#include "ops/cpu/finite.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {

constexpr int64_t kChunk = 16384;  // elements: 64 KiB, a few us on one core

// With the marks of x.
static double dot_of_touched(Context& context,
                             std::span<const float> x,
                             std::span<const float> y,
                             const TouchedBlocks& touched) {
  const int64_t n = std::ssize(x);
  const float* a = x.data();
  const float* b = y.data();
  const auto sums =
      results_of_chunks(context, n, kChunk, n, [&](int64_t begin, int64_t end) {
        D16 lane_sums = {};
        for_touched(touched, a, begin, end, [&](int64_t first, int64_t last) {
          for_vectors(first, last, [&](auto lanes, int64_t i) {
            lane_sums +=
                to_double(lanes.get(a + i)) * to_double(lanes.get(b + i));
          });
        });
        double sum = 0;
        for (int lane = 0; lane < kLanes; ++lane) sum += lane_sums[lane];
        return sum;
      });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double dot(Context& context,
           std::span<const float> x,
           std::span<const float> y) {
  return dot_of_touched(context, x, y, {});
}

int64_t first_nonfinite(Context& context, std::span<const float> x) {
  const int64_t n = std::ssize(x);
  const float* from = x.data();
  const auto first =
      results_of_chunks(context, n, kChunk, n, [&](int64_t begin, int64_t end) {
        if (is_finite(from, begin, end)) return int64_t{-1};
        while (__builtin_isfinite(from[begin])) ++begin;
        return begin;
      });
  const auto found =
      std::ranges::find_if(first, [](int64_t at) { return at >= 0; });
  return found == first.end() ? -1 : *found;
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
  const float* from = x.data();
  const auto sums =
      results_of_chunks(context, n, kChunk, n, [&](int64_t i, int64_t end) {
        U64x16 lane_sums = {}, places = {};
        for (int lane = 0; lane < kLanes; ++lane)
          places[lane] = static_cast<uint64_t>(i + lane) << 32;
        for (; i + kLanes <= end; i += kLanes) {
          const U16 bits = reinterpret_cast<U16>(load(from + i));
          lane_sums += scramble(places | __builtin_convertvector(bits, U64x16));
          places += uint64_t{kLanes} << 32;
        }
        uint64_t sum = 0;
        for (int lane = 0; lane < kLanes; ++lane) sum += lane_sums[lane];
        for (; i < end; ++i)
          sum += scramble(static_cast<uint64_t>(i) << 32 |
                          std::bit_cast<uint32_t>(from[i]));
        return sum;
      });
  return std::accumulate(sums.begin(), sums.end(), uint64_t{0});
}

void clip_factor(Context& context,
                 float* factor,
                 std::span<const float> gradient,
                 double scale,
                 double limit,
                 const TouchedBlocks& touched) {
  const double squares = dot_of_touched(context, gradient, gradient, touched);
  const double norm = scale * std::sqrt(squares);
  // The constant avoids 0 / 0, as is customary.
  *factor = static_cast<float>(limit / (norm + 1e-6));
  if (*factor > 1) *factor = 1;  // keeps NaN
}

}  // namespace syncopate::cpu
