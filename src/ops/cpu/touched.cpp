#include "ops/touched.h"

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {

void clear_touched(Context& context,
                   std::span<float> values,
                   const TouchedBlocks& touched) {
  constexpr int64_t kPiece = 128 * TouchedBlocks::kElems;
  const int64_t n = std::ssize(values);
  parallel_for(context, ceil_div(n, kPiece), n, [&](int64_t piece) {
    const int64_t end = std::min(n, (piece + 1) * kPiece);
    for_touched(touched, values.data(), piece * kPiece, end,
                [&](int64_t first, int64_t last) {
                  std::fill(values.data() + first, values.data() + last, 0.0f);
                });
    for (int64_t block = piece * kPiece / TouchedBlocks::kElems;
         block * TouchedBlocks::kElems < end; ++block)
      if (touched.marks[block] == TouchedBlocks::kTouched)
        touched.marks[block] = TouchedBlocks::kUntouched;
  });
}

}  // namespace syncopate::cpu
