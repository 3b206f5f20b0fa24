#include <cmath>

#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int kSpanThreads = 256;

struct EndResult {
  double loss;
  int64_t rank;  // tokens that precede the label; -1: not a number
};

struct GreaterFloat {  // ignores NaN, which the sum of exponentials keeps
  __device__ __forceinline__ float operator()(float a, float b) const {
    return fmaxf(a, b);
  }
};

// One block per end of a sequence. A thread reads and writes the same elements,
// and all are read before any is written: dlogits may alias logits.
__global__ void __launch_bounds__(kSpanThreads)
    span_ends_kernel(EndResult* ends,         // (N, 2)
                     float* dlogits,          // (T, 2) or null
                     const float* logits,     // (T, 2)
                     const int32_t* labels,   // (N, 2)
                     const int32_t* offsets,  // (N + 1)
                     int64_t N,
                     float scale) {
  for (int64_t end = blockIdx.x; end < 2 * N; end += gridDim.x) {
    const int64_t first = 2 * int64_t{offsets[end / 2]} + end % 2;
    const int64_t length = offsets[end / 2 + 1] - offsets[end / 2];
    const float* from = logits + first;
    const int64_t label = labels[end];
    const float chosen = label >= 0 && label < length ? from[2 * label] : NAN;
    float highest = -INFINITY;
    int64_t rank = 0;
    for (int64_t i = threadIdx.x; i < length; i += kSpanThreads) {
      const float logit = from[2 * i];
      highest = fmaxf(highest, logit);
      rank += logit > chosen || (logit == chosen && i < label);
    }
    highest = block_reduce(highest, shared_memory<float>(), GreaterFloat());
    rank = block_sum(rank, shared_memory<int64_t>());
    double sum = 0;
    for (int64_t i = threadIdx.x; i < length; i += kSpanThreads)
      sum += static_cast<double>(expf(from[2 * i] - highest));
    sum = block_sum(sum, shared_memory<double>());
    if (dlogits != nullptr) {
      const auto factor = static_cast<float>(static_cast<double>(scale) / sum);
      for (int64_t i = threadIdx.x; i < length; i += kSpanThreads) {
        const float share = expf(from[2 * i] - highest) * factor;
        dlogits[first + 2 * i] = i == label ? share - scale : share;
      }
    }
    if (threadIdx.x == 0) {
      const double loss =
          log(sum) + static_cast<double>(highest) - static_cast<double>(chosen);
      ends[end] = {loss, std::isfinite(loss) ? rank : -1};
    }
  }
}

// One block: each thread adds successive sequences, and the first thread adds
// the threads' results in order.
__global__ void __launch_bounds__(kSpanThreads)
    sum_spans_kernel(ClassificationSums* sums,
                     const EndResult* ends,
                     int64_t N) {
  auto* of_thread = shared_memory<ClassificationSums>();
  const int64_t share = ceil_div(N, kSpanThreads);
  const int64_t begin = share * threadIdx.x;
  ClassificationSums mine;
  for (int64_t n = begin; n < begin + share && n < N; ++n) {
    const EndResult first = ends[2 * n], last = ends[2 * n + 1];
    mine.loss_sum += (first.loss + last.loss) / 2;
    if (first.rank < 0 || last.rank < 0) continue;
    const int64_t rank = first.rank > last.rank ? first.rank : last.rank;
    mine.correct += rank == 0;
    mine.correct_top5 += rank < 5;
  }
  of_thread[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  ClassificationSums all;
  for (int thread = 0; thread < kSpanThreads; ++thread) {
    all.loss_sum += of_thread[thread].loss_sum;
    all.correct += of_thread[thread].correct;
    all.correct_top5 += of_thread[thread].correct_top5;
  }
  all.samples = N;
  *sums = all;
}

void span_cross_entropy(Context& context,
                        ClassificationSums* sums,
                        Tensor dlogits,
                        ConstTensor logits,
                        ConstTensor labels,
                        const Sequences& sequences,
                        float scale) {
  const int64_t N = sequences.count;
  auto* ends = static_cast<EndResult*>(
      context.scratch(2 * N * int64_t{sizeof(EndResult)}));
  launch(span_ends_kernel, dim3(grid_for(2 * N, 1)), dim3(kSpanThreads),
         kSpanThreads / kWarpSize * int64_t{sizeof(double)}, context.stream(),
         ends, dlogits.data != nullptr ? dlogits.f32() : nullptr, logits.f32(),
         static_cast<const int32_t*>(labels.data), sequences.offsets, N,
         scale / 2);
  launch(sum_spans_kernel, dim3(1), dim3(kSpanThreads),
         kSpanThreads * int64_t{sizeof(ClassificationSums)}, context.stream(),
         sums, ends, N);
}

}  // namespace syncopate::cuda
