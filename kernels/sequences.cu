#include "cuda/pack.cuh"
#include "cuda/token_draws.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr unsigned kSequenceThreads = 256;

template <typename T, int V>
__global__ void __launch_bounds__(kSequenceThreads)
    token_dropout_kernel(T* y,        // (tokens, draws.H)
                         const T* x,  // dtype of y
                         int64_t tokens,
                         TokenDraws draws) {
  const int64_t packs = draws.H / V, items = tokens * packs;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       item < items; item += threads) {
    auto pack = Pack<T, V>::load(x + item * V);
    float values[V];
    for (int e = 0; e < V; ++e) values[e] = pack.get(e);
    draws.drop(values, item / packs, item % packs * V);
    for (int e = 0; e < V; ++e) pack.set(e, values[e]);
    pack.store(y + item * V);
  }
}

void token_dropout(Context& context,
                   Tensor y,
                   ConstTensor x,
                   const Sequences& sequences,
                   const TokenDropout& dropout) {
  if (dropout.p == 0 && y.data == x.data) return;
  const int64_t tokens = y.shape[0], H = y.shape[1];
  with_pack(y.dtype, H, {y.data, x.data}, [&](auto pack) {
    using P = decltype(pack);
    using T = typename P::Elem;
    launch(token_dropout_kernel<T, P::kCount>,
           dim3(grid_for(tokens * (H / P::kCount), kSequenceThreads)),
           dim3(kSequenceThreads), 0, context.stream(), static_cast<T*>(y.data),
           static_cast<const T*>(x.data), tokens,
           token_draws(sequences, dropout, H));
  });
}

}  // namespace syncopate::cuda
