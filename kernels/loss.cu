#include <algorithm>
#include <cmath>

#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int64_t kLossThreads = 256;

struct RowResult {
  double loss;
  int64_t rank;  // classes that precede the label; K: not a hit
};

struct FloatMax {  // ignores NaN, which the sum of exponentials keeps
  __device__ __forceinline__ float operator()(float a, float b) const {
    return fmaxf(a, b);
  }
};

// The threads that share a row: a warp, or a block of `blockDim.x` threads.
template <bool kIsBlock>
struct Team {
  __device__ static unsigned size() {
    return kIsBlock ? blockDim.x : kWarpSize;
  }
  __device__ static unsigned thread() { return threadIdx.x % size(); }
  __device__ static unsigned teams() { return blockDim.x / size(); }
  __device__ static int64_t first_row() {
    return int64_t{blockIdx.x} * teams() + threadIdx.x / size();
  }
  template <typename T, typename Combine>
  __device__ static T reduce(T value, const Combine& combine) {
    if constexpr (kIsBlock)
      return block_reduce(value, shared_memory<T>(), combine);
    else
      return warp_reduce(value, combine);
  }
};

// A thread reads and writes the same elements, and all of a row is read before
// any of it is written: dlogits may alias logits.
template <bool kIsBlock>
__global__ void __launch_bounds__(kLossThreads)
    softmax_rows_kernel(RowResult* rows,        // (N)
                        float* dlogits,         // (N, K) or null
                        const float* logits,    // (N, K)
                        const int32_t* labels,  // (N)
                        int64_t N,
                        int64_t K,
                        float scale,
                        float smoothing) {
  using Row = Team<kIsBlock>;
  const int64_t step = Row::size();
  for (int64_t n = Row::first_row(); n < N;
       n += int64_t{gridDim.x} * Row::teams()) {
    const float* from = logits + n * K;
    const int64_t label = labels[n];
    const bool is_known = label >= 0 && label < K;
    const float chosen = is_known ? from[label] : NAN;
    float highest = -INFINITY;
    int64_t rank = 0;
    for (int64_t k = Row::thread(); k < K; k += step) {
      highest = fmaxf(highest, from[k]);
      rank += from[k] > chosen || (from[k] == chosen && k < label);
    }
    highest = Row::reduce(highest, FloatMax());
    rank = Row::reduce(rank, Sum());
    double mean = 0;  // of the logits
    if (smoothing > 0) {
      for (int64_t k = Row::thread(); k < K; k += step)
        mean += static_cast<double>(from[k]);
      mean = Row::reduce(mean, Sum()) / static_cast<double>(K);
    }
    double sum = 0;
    for (int64_t k = Row::thread(); k < K; k += step)
      sum += static_cast<double>(expf(from[k] - highest));
    sum = Row::reduce(sum, Sum());
    if (dlogits != nullptr) {
      const auto factor = static_cast<float>(static_cast<double>(scale) / sum);
      const float each = scale * smoothing / static_cast<float>(K);
      float* to = dlogits + n * K;
      for (int64_t k = Row::thread(); k < K; k += step) {
        const float share = expf(from[k] - highest) * factor - each;
        to[k] = k == label ? share - scale * (1 - smoothing) : share;
      }
    }
    if (Row::thread() == 0) {
      double loss =
          log(sum) + static_cast<double>(highest) - static_cast<double>(chosen);
      if (smoothing > 0)
        loss += static_cast<double>(smoothing) *
                (static_cast<double>(chosen) - mean);
      rows[n] = {loss, std::isfinite(loss) ? rank : K};
    }
  }
}

// One block: each thread adds successive rows, and the first thread adds the
// threads' results in order.
__global__ void __launch_bounds__(kLossThreads)
    sum_rows_kernel(ClassificationSums* sums,
                    const RowResult* rows,
                    int64_t N,
                    int64_t K) {
  auto* of_thread = shared_memory<ClassificationSums>();
  const int64_t share = ceil_div(N, blockDim.x);
  const int64_t begin = share * threadIdx.x;
  ClassificationSums mine;
  for (int64_t n = begin; n < begin + share && n < N; ++n) {
    mine.loss_sum += rows[n].loss;
    mine.correct += rows[n].rank == 0;
    // A row that is no hit has rank K, which must not count if K <= 5.
    mine.correct_top5 += rows[n].rank < (K < 5 ? K : 5);
  }
  of_thread[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  ClassificationSums all;
  for (unsigned thread = 0; thread < blockDim.x; ++thread) {
    all.loss_sum += of_thread[thread].loss_sum;
    all.correct += of_thread[thread].correct;
    all.correct_top5 += of_thread[thread].correct_top5;
  }
  all.samples = N;
  *sums = all;
}

void softmax_cross_entropy(Context& context,
                           ClassificationSums* sums,
                           Tensor dlogits,
                           ConstTensor logits,
                           ConstTensor labels,
                           float scale,
                           float smoothing) {
  const int64_t N = logits.shape[0], K = logits.shape[1];
  auto* rows =
      static_cast<RowResult*>(context.scratch(N * int64_t{sizeof(RowResult)}));
  float* to = dlogits.data != nullptr ? dlogits.f32() : nullptr;
  // One block per row if its threads have more than one element each.
  constexpr int64_t kWarpRows = 4;
  const bool is_block = K > kLossThreads;
  const int64_t rows_per_block = is_block ? 1 : kWarpRows;
  launch(is_block ? softmax_rows_kernel<true> : softmax_rows_kernel<false>,
         dim3(grid_for(N, rows_per_block)),
         dim3(is_block ? kLossThreads : kWarpRows * kWarpSize),
         is_block ? kLossThreads / kWarpSize * int64_t{sizeof(double)} : 0,
         context.stream(), rows, to, logits.f32(),
         static_cast<const int32_t*>(labels.data), N, K, scale, smoothing);
  launch(sum_rows_kernel, dim3(1), dim3(kLossThreads),
         kLossThreads * int64_t{sizeof(ClassificationSums)}, context.stream(),
         sums, rows, N, K);
}

}  // namespace syncopate::cuda
