#include "ops/touched.h"

#include "cuda/touched.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int kClearThreads = 256;

__global__ void __launch_bounds__(kClearThreads)
    clear_touched_kernel(float* values, int64_t n, TouchedBlocks touched) {
  for_touched_elems(touched, values, n, [&](int64_t i) {
    values[i] = 0;
    // The warp has read the mark.
    uint8_t& mark = touched.marks[i / TouchedBlocks::kElems];
    if (i % TouchedBlocks::kElems == 0 && mark == TouchedBlocks::kTouched)
      mark = TouchedBlocks::kUntouched;
  });
}

void clear_touched(Context& context,
                   std::span<float> values,
                   const TouchedBlocks& touched) {
  const int64_t n = std::ssize(values);
  launch(clear_touched_kernel, grid_of_touched(n, kClearThreads),
         dim3(kClearThreads), 0, context.stream(), values.data(), n, touched);
}

}  // namespace syncopate::cuda
