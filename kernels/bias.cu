#include "cuda/bias.h"

#include <cuda/platform.h>

namespace syncopate::cuda {
namespace {

// A block sums kWarpSize columns: its warps take rows in turn, then the
// partial sums are added in the order of the warps. So the order of every sum
// is fixed by N alone.
constexpr int kWarps = 8;

__global__ void accumulate_bias_kernel(float* db,
                                       const float* dy,
                                       int64_t N,
                                       int64_t K) {
  float* partial = shared_memory<float>();  // (kWarps, kWarpSize)
  const int lane = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.y);
  const int64_t k = int64_t{blockIdx.x} * kWarpSize + lane;
  float sum = 0;
  if (k < K)
    for (int64_t n = warp; n < N; n += kWarps) sum += dy[n * K + k];
  partial[warp * kWarpSize + lane] = sum;
  __syncthreads();
  if (warp != 0 || k >= K) return;
  float total = 0;
  for (int part = 0; part < kWarps; ++part)
    total += partial[part * kWarpSize + lane];
  db[k] += total;
}

}  // namespace

void accumulate_bias(Stream& stream,
                     float* db,
                     const float* dy,
                     int64_t N,
                     int64_t K) {
  const int64_t blocks = (K + kWarpSize - 1) / kWarpSize;
  CHECK_MSG(blocks <= INT32_MAX, "{} blocks", blocks);
  launch(accumulate_bias_kernel, static_cast<unsigned>(blocks),
         dim3(kWarpSize, kWarps), kWarps * kWarpSize * sizeof(float), stream,
         db, dy, N, K);
}

}  // namespace syncopate::cuda
