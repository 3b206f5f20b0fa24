#include "ops/nonfinite.h"

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"

namespace syncopate::cpu {
namespace {

constexpr int64_t kChunk = 16384;           // elements: 64 KiB
constexpr uint32_t kExponent = 0x7F800000;  // all ones: infinity or NaN

bool is_finite(const float* from, int64_t begin, int64_t end) {
  U16 largest = {};
  for_vectors(begin, end, [&](auto lanes, int64_t i) {
    const U16 exponent = reinterpret_cast<U16>(lanes.get(from + i)) & kExponent;
    largest = exponent > largest ? exponent : largest;
  });
  uint32_t all = 0;
  for (int lane = 0; lane < kLanes; ++lane) all = std::max(all, largest[lane]);
  return all != kExponent;
}

}  // namespace

void withhold_nonfinite(Context& context,
                        std::span<float> values,
                        int64_t* found,
                        int64_t offset) {
  const int64_t n = std::ssize(values);
  const int64_t chunks = ceil_div(n, kChunk);
  auto* last =
      static_cast<int64_t*>(context.scratch(chunks * int64_t{sizeof(int64_t)}));
  const float* from = values.data();
  parallel_for(context, chunks, n, [&](int64_t chunk) {
    const int64_t begin = chunk * kChunk, end = std::min(n, begin + kChunk);
    last[chunk] = -1;
    if (is_finite(from, begin, end)) return;
    last[chunk] = end - 1;
    while (__builtin_isfinite(from[last[chunk]])) --last[chunk];
  });
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    if (last[chunk] >= 0) *found = std::max(*found, offset + last[chunk]);
  if (*found >= 0) std::fill(values.begin(), values.end(), 0.0f);
}

void restore_withheld(Context&,
                      std::span<float> values,
                      std::span<const float> saved,
                      const int64_t* found) {
  if (*found >= 0) std::copy(saved.begin(), saved.end(), values.begin());
}

}  // namespace syncopate::cpu
