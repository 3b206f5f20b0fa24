#include "ops/shared_sum.h"

#include <algorithm>

#include "cuda/pack.cuh"
#include "cuda/range.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int kSharedSumPack = kPackElems<float>;
constexpr unsigned kSharedSumThreads = 256;
// Of a multiprocessor: more would not leave a thread the registers for several
// loads at once, and keep some in local memory.
constexpr unsigned kSharedSumBlocks = 4;

struct SharedRanges {
  float* values[kMostSharedRanges];
  int count;
  int64_t elems;
  // In elements, of the first one in its pack; -1: the ranges differ in that.
  int phase;
};

__device__ __forceinline__ float as_bf16(float value) {
  return to_f32(from_f32<Bf16>(value));
}

// Blocks (x, c) sum chunk c of gridDim.y.
template <SumOrder kOrder, bool kRounds>
__global__ void __launch_bounds__(kSharedSumThreads, kSharedSumBlocks)
    shared_sum_kernel(SharedRanges ranges) {
  const int64_t chunk = blockIdx.y, chunks = gridDim.y;
  const int64_t longer = ranges.elems % chunks;
  const int64_t begin = ranges.elems / chunks * chunk + std::min(chunk, longer);
  const int64_t elems = ranges.elems / chunks + (chunk < longer ? 1 : 0);
  RangeSplit range{elems, 0, 0};
  if (ranges.phase >= 0) {
    const int64_t past = (ranges.phase + begin) % kSharedSumPack;
    const int64_t head = (kSharedSumPack - past) % kSharedSumPack;
    if (head < elems) range = {elems, head, (elems - head) / kSharedSumPack};
  }
  const int after = static_cast<int>(chunk) + 1;
  const int start =
      kOrder == SumOrder::kRing && after < ranges.count ? after : 0;
  for_range<kSharedSumPack>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    const int64_t at = begin + first;
    Elems sum = Elems::load(ranges.values[start] + at);
    int from = start;
    for (int k = 1; k < ranges.count; ++k) {
      if (++from == ranges.count) from = 0;
      const Elems term = Elems::load(ranges.values[from] + at);
      for (int i = 0; i < width(); ++i) {
        float before = sum.elem[i], next = term.elem[i];
        float& travels = kOrder == SumOrder::kRing ? before : next;
        if (kRounds) travels = as_bf16(travels);
        sum.elem[i] = before + next;
      }
    }
    if (kRounds)
      for (int i = 0; i < width(); ++i) sum.elem[i] = as_bf16(sum.elem[i]);
    for (int to = 0; to < ranges.count; ++to) sum.store(ranges.values[to] + at);
  });
}

void shared_sum(Context& context,
                std::span<const std::span<float>> ranges,
                SumOrder order,
                DType sent) {
  const auto phase_of = [](const std::span<float>& range) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(range.data()) /
                            sizeof(float) % kSharedSumPack);
  };
  SharedRanges all{{},
                   static_cast<int>(ranges.size()),
                   std::ssize(ranges[0]),
                   phase_of(ranges[0])};
  for (size_t i = 0; i < ranges.size(); ++i) {
    all.values[i] = ranges[i].data();
    if (phase_of(ranges[i]) != all.phase) all.phase = -1;
  }
  if (all.elems == 0) return;
  const bool is_ring = order == SumOrder::kRing;
  const bool rounds = sent == DType::kBf16;
  const auto kernel =
      is_ring ? (rounds ? shared_sum_kernel<SumOrder::kRing, true>
                        : shared_sum_kernel<SumOrder::kRing, false>)
              : (rounds ? shared_sum_kernel<SumOrder::kServer, true>
                        : shared_sum_kernel<SumOrder::kServer, false>);
  const int64_t chunks = is_ring ? all.count : 1;
  const int64_t longest = (all.elems + chunks - 1) / chunks;
  const int64_t packs = (longest + kSharedSumPack - 1) / kSharedSumPack;
  launch(
      kernel,
      dim3(grid_for(packs, kSharedSumThreads), static_cast<unsigned>(chunks)),
      dim3(kSharedSumThreads), 0, context.stream(), all);
}

}  // namespace syncopate::cuda
