#include "cuda/pack.cuh"
#include "cuda/range.cuh"
#include "cuda/shadow.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr unsigned kThreads = 256;
constexpr int kCopyPack = kPackElems<float>;

__global__ void __launch_bounds__(kThreads)
    copy_weights_kernel(const float* x, ShadowSlice copies, RangeSplit range) {
  for_range<kCopyPack>(range, [&](auto width, int64_t first) {
    store_copies(copies, first, Pack<float, width()>::load(x + first));
  });
}

void copy_weights(Context& context,
                  std::span<const float> x,
                  const ShadowSlice& copies) {
  const RangeSplit range = split_range<kCopyPack>(std::ssize(x), x.data());
  launch(copy_weights_kernel, dim3(grid_for(range.items(kCopyPack), kThreads)),
         dim3(kThreads), 0, context.stream(), x.data(), copies, range);
}

}  // namespace syncopate::cuda
