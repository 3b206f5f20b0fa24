#include <cmath>

#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int kClickThreads = 256;

struct ClickSums {  // over a block's rows
  double loss;
  int64_t correct, finite;
};

// With t = z for label 0 and -z for label 1 both cases are one:
//   loss = log(1 + exp(-|t|)) + max(t, 0),   dloss/dt = 1 / (1 + exp(-t))
// and nothing cancels when the model is confident. A block handles
// kClickThreads successive rows, however many blocks there are. dlogits may
// alias logits.
__global__ void __launch_bounds__(kClickThreads)
    click_rows_kernel(ClickSums* blocks,
                      float* dlogits,         // (N) or null
                      const float* logits,    // (N)
                      const int32_t* labels,  // (N)
                      int64_t N,
                      float scale) {
  for (int64_t block = blockIdx.x; block * kClickThreads < N;
       block += gridDim.x) {
    const int64_t n = block * kClickThreads + threadIdx.x;
    double loss = 0;
    int64_t is_finite = 0, is_correct = 0;
    if (n < N) {
      const float z = logits[n];
      const int32_t label = labels[n];
      const bool is_known = label == 0 || label == 1;
      const float t = !is_known ? NAN : label == 1 ? -z : z;
      const float e = expf(-fabsf(t));
      const float of_row = log1pf(e) + (t < 0 ? 0.0f : t);  // propagates NaN
      if (dlogits != nullptr) {
        const float share = scale * (t < 0 ? e : 1.0f) / (1.0f + e);
        dlogits[n] = label == 1 ? -share : is_known ? share : t;
      }
      loss = static_cast<double>(of_row);
      is_finite = std::isfinite(of_row);
      is_correct = is_finite != 0 && (z > 0) == (label == 1);
    }
    loss = block_sum(loss, shared_memory<double>());
    is_correct = block_sum(is_correct, shared_memory<int64_t>());
    is_finite = block_sum(is_finite, shared_memory<int64_t>());
    if (threadIdx.x == 0) blocks[block] = {loss, is_correct, is_finite};
  }
}

// One block: each thread adds the sums of successive blocks, and the first
// thread adds the threads' results in order.
__global__ void __launch_bounds__(kClickThreads)
    sum_clicks_kernel(ClassificationSums* sums,
                      const ClickSums* blocks,
                      int64_t num_blocks,
                      int64_t N) {
  auto* of_thread = shared_memory<ClickSums>();
  const int64_t share = ceil_div(num_blocks, blockDim.x);
  const int64_t begin = share * threadIdx.x;
  ClickSums mine{};
  const auto add = [](ClickSums& to, const ClickSums& from) {
    to.loss += from.loss;
    to.correct += from.correct;
    to.finite += from.finite;
  };
  for (int64_t i = begin; i < begin + share && i < num_blocks; ++i)
    add(mine, blocks[i]);
  of_thread[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  ClickSums all{};
  for (unsigned thread = 0; thread < blockDim.x; ++thread)
    add(all, of_thread[thread]);
  sums->loss_sum = all.loss;
  sums->correct = all.correct;
  sums->correct_top5 = all.finite;
  sums->samples = N;
}

void binary_cross_entropy(Context& context,
                          ClassificationSums* sums,
                          Tensor dlogits,
                          ConstTensor logits,
                          ConstTensor labels,
                          float scale) {
  const int64_t N = logits.shape[0];
  const int64_t num_blocks = ceil_div(N, kClickThreads);
  auto* blocks = static_cast<ClickSums*>(
      context.scratch(num_blocks * int64_t{sizeof(ClickSums)}));
  float* to = dlogits.data != nullptr ? dlogits.f32() : nullptr;
  launch(click_rows_kernel, dim3(grid_for(N, kClickThreads)),
         dim3(kClickThreads),
         kClickThreads / kWarpSize * int64_t{sizeof(double)}, context.stream(),
         blocks, to, logits.f32(), static_cast<const int32_t*>(labels.data), N,
         scale);
  launch(sum_clicks_kernel, dim3(1), dim3(kClickThreads),
         kClickThreads * int64_t{sizeof(ClickSums)}, context.stream(), sums,
         blocks, num_blocks, N);
}

}  // namespace syncopate::cuda
