#include "ops/gather_clicks.h"

#include "cuda/pack.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr unsigned kGatherThreads = 256;

// A thread copies one field, so that stores are coalesced and a record is read
// by neighbouring threads.
__global__ void __launch_bounds__(kGatherThreads)
    gather_clicks_kernel(int32_t* rows,           // (N, F)
                         int32_t* labels,         // (N)
                         const int32_t* table,    // (S, F)
                         const uint8_t* clicked,  // (S)
                         const int32_t* samples,  // (N)
                         int64_t elems,           // N * F
                         int64_t F,
                         int64_t S) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t elem = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       elem < elems; elem += threads) {
    const int64_t n = elem / F, f = elem % F;
    const int64_t sample = samples[n];
    const bool is_known = sample >= 0 && sample < S;
    rows[elem] = is_known ? table[sample * F + f] : -1;
    if (f == 0) labels[n] = is_known ? clicked[sample] : 0;
  }
}

void gather_clicks(Context& context,
                   Tensor rows,
                   Tensor labels,
                   ConstTensor table,
                   ConstTensor clicked,
                   ConstTensor samples) {
  const int64_t elems = rows.elems();
  if (elems == 0) return;
  launch(gather_clicks_kernel, dim3(grid_for(elems, kGatherThreads)),
         dim3(kGatherThreads), 0, context.stream(),
         static_cast<int32_t*>(rows.data), static_cast<int32_t*>(labels.data),
         static_cast<const int32_t*>(table.data),
         static_cast<const uint8_t*>(clicked.data),
         static_cast<const int32_t*>(samples.data), elems, rows.shape[1],
         table.shape[0]);
}

}  // namespace syncopate::cuda
