#include "cuda/filters.h"

#include <cuda/platform.h>

namespace syncopate::cuda {
namespace {

// Threads per block, one per pair (k, c): adjacent threads touch adjacent
// channels on the packed side, and consecutive windows on the other side, whose
// cache lines they use completely.
constexpr int kThreads = 256;

unsigned blocks_for(const FilterSize& size) {
  const int64_t blocks = (size.K * size.C + kThreads - 1) / kThreads;
  CHECK_MSG(blocks <= INT32_MAX, "{} blocks", blocks);
  return static_cast<unsigned>(blocks);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    pack_filters_kernel(T* krsc, const float* w, FilterSize size) {
  const int64_t pair = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pair >= size.K * size.C) return;
  const int64_t k = pair / size.C, c = pair % size.C;
  const int64_t window = size.R * size.S;
  for (int64_t rs = 0; rs < window; ++rs)
    krsc[(k * window + rs) * size.C + c] = from_f32<T>(w[pair * window + rs]);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    accumulate_filters_kernel(float* dw, const T* krsc, FilterSize size) {
  const int64_t pair = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pair >= size.K * size.C) return;
  const int64_t k = pair / size.C, c = pair % size.C;
  const int64_t window = size.R * size.S;
  for (int64_t rs = 0; rs < window; ++rs)
    dw[pair * window + rs] += to_f32(krsc[(k * window + rs) * size.C + c]);
}

}  // namespace

void pack_filters(Stream& stream,
                  void* krsc,
                  const float* w,
                  const FilterSize& size,
                  DType dtype) {
  if (dtype == DType::kBf16)
    launch(pack_filters_kernel<Bf16>, blocks_for(size), kThreads, 0, stream,
           static_cast<Bf16*>(krsc), w, size);
  else
    launch(pack_filters_kernel<float>, blocks_for(size), kThreads, 0, stream,
           static_cast<float*>(krsc), w, size);
}

void accumulate_filters(Stream& stream,
                        float* dw,
                        const void* krsc,
                        const FilterSize& size,
                        DType dtype) {
  if (dtype == DType::kBf16)
    launch(accumulate_filters_kernel<Bf16>, blocks_for(size), kThreads, 0,
           stream, dw, static_cast<const Bf16*>(krsc), size);
  else
    launch(accumulate_filters_kernel<float>, blocks_for(size), kThreads, 0,
           stream, dw, static_cast<const float*>(krsc), size);
}

}  // namespace syncopate::cuda
