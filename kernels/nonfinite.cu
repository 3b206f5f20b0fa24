#include "ops/nonfinite.h"

#include <cuda/atomic.cuh>
#include "cuda/range.cuh"
#include "cuda/reduce.cuh"
#include "cuda/touched.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int kNonfiniteThreads = 256;
constexpr int kNonfinitePack = kPackElems<float>;
constexpr int64_t kNonfiniteShared =
    kNonfiniteThreads / kWarpSize * int64_t{sizeof(int64_t)};

// Takes the maximum over all blocks, which does not depend on their order.
__device__ __forceinline__ void raise_found(int64_t* found, int64_t last) {
  last = block_reduce(last, shared_memory<int64_t>(), Max());
  if (threadIdx.x == 0 && last >= 0) raise_atomically(found, last);
}

__global__ void __launch_bounds__(kNonfiniteThreads)
    find_nonfinite_kernel(int64_t* found,
                          const float* values,
                          int64_t offset,
                          RangeSplit range) {
  int64_t last = -1;
  for_range<kNonfinitePack>(range, [&](auto width, int64_t first) {
    const auto pack = Pack<float, width()>::load(values + first);
    for (int e = 0; e < width(); ++e)
      if (!std::isfinite(pack.elem[e])) last = Max()(last, offset + first + e);
  });
  raise_found(found, last);
}

__global__ void __launch_bounds__(kNonfiniteThreads)
    find_touched_nonfinite_kernel(int64_t* found,
                                  const float* values,
                                  int64_t n,
                                  int64_t offset,
                                  TouchedBlocks touched) {
  int64_t last = -1;
  for_touched_elems(touched, values, n, [&](int64_t i) {
    if (!std::isfinite(values[i])) last = Max()(last, offset + i);
  });
  raise_found(found, last);
}

__global__ void __launch_bounds__(kNonfiniteThreads)
    zero_withheld_kernel(const int64_t* found,
                         float* values,
                         RangeSplit range) {
  if (*found < 0) return;
  for_range<kNonfinitePack>(range, [&](auto width, int64_t first) {
    Pack<float, width()>{}.store(values + first);
  });
}

__global__ void __launch_bounds__(kNonfiniteThreads)
    restore_withheld_kernel(const int64_t* found,
                            float* values,
                            const float* saved,
                            RangeSplit range) {
  if (*found < 0) return;
  for_range<kNonfinitePack>(range, [&](auto width, int64_t first) {
    Pack<float, width()>::load(saved + first).store(values + first);
  });
}

namespace {

dim3 grid_of(const RangeSplit& range) {
  return dim3(grid_for(range.items(kNonfinitePack), kNonfiniteThreads));
}

}  // namespace

void withhold_nonfinite(Context& context,
                        std::span<float> values,
                        int64_t* found,
                        int64_t offset,
                        const TouchedBlocks& touched) {
  const RangeSplit range =
      split_range<kNonfinitePack>(std::ssize(values), values.data());
  if (touched.marks == nullptr)
    launch(find_nonfinite_kernel, grid_of(range), dim3(kNonfiniteThreads),
           kNonfiniteShared, context.stream(), found, values.data(), offset,
           range);
  else
    launch(find_touched_nonfinite_kernel,
           grid_of_touched(std::ssize(values), kNonfiniteThreads),
           dim3(kNonfiniteThreads), kNonfiniteShared, context.stream(), found,
           values.data(), std::ssize(values), offset, touched);
  launch(zero_withheld_kernel, grid_of(range), dim3(kNonfiniteThreads), 0,
         context.stream(), found, values.data(), range);
}

void restore_withheld(Context& context,
                      std::span<float> values,
                      std::span<const float> saved,
                      const int64_t* found) {
  const RangeSplit range = split_range<kNonfinitePack>(
      std::ssize(values), values.data(), saved.data());
  launch(restore_withheld_kernel, grid_of(range), dim3(kNonfiniteThreads), 0,
         context.stream(), found, values.data(), saved.data(), range);
}

}  // namespace syncopate::cuda
