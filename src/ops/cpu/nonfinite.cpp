#include "ops/nonfinite.h"

#include "ops/bodies.h"
#include "ops/cpu/finite.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
constexpr int64_t kChunk = 16384;  // elements: 64 KiB

void withhold_nonfinite(Context& context,
                        std::span<float> values,
                        int64_t* found,
                        int64_t offset,
                        const TouchedBlocks& touched) {
  const int64_t n = std::ssize(values);
  const float* from = values.data();
  const auto last =
      results_of_chunks(context, n, kChunk, n, [&](int64_t begin, int64_t end) {
        int64_t bad = -1;
        for_touched(touched, from, begin, end,
                    [&](int64_t first, int64_t stop) {
                      if (is_finite(from, first, stop)) return;
                      while (__builtin_isfinite(from[stop - 1])) --stop;
                      bad = stop - 1;
                    });
        return bad;
      });
  for (const int64_t at : last)
    if (at >= 0) *found = std::max(*found, offset + at);
  if (*found >= 0) std::fill(values.begin(), values.end(), 0.0f);
}

void restore_withheld(Context&,
                      std::span<float> values,
                      std::span<const float> saved,
                      const int64_t* found) {
  if (*found >= 0) std::copy(saved.begin(), saved.end(), values.begin());
}

}  // namespace syncopate::cpu
