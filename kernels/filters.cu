#include "cuda/filters.h"

#include <cuda/platform.h>

namespace syncopate::cuda {
namespace {

// Threads per block, one per pair (k, c): adjacent threads touch adjacent
// channels on the packed side, and consecutive windows on the other side, whose
// cache lines they use completely.
constexpr int kThreads = 256;

unsigned blocks_for(const FilterSize& size) {
  const int64_t blocks = (size.K * size.packed_C + kThreads - 1) / kThreads;
  CHECK_MSG(blocks <= INT32_MAX, "{} blocks", blocks);
  return static_cast<unsigned>(blocks);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    pack_filters_kernel(T* krsc, const float* w, FilterSize size) {
  const int64_t pair = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pair >= size.K * size.packed_C) return;
  const int64_t k = pair / size.packed_C, c = pair % size.packed_C;
  const int64_t window = size.R * size.S;
  const float* of_pair = w + (k * size.C + c) * window;
  for (int64_t rs = 0; rs < window; ++rs)
    krsc[(k * window + rs) * size.packed_C + c] =
        from_f32<T>(c < size.C ? of_pair[rs] : 0.0f);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    accumulate_filters_kernel(float* dw, const T* krsc, FilterSize size) {
  const int64_t pair = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t k = pair / size.packed_C, c = pair % size.packed_C;
  if (k >= size.K || c >= size.C) return;
  const int64_t window = size.R * size.S;
  float* of_pair = dw + (k * size.C + c) * window;
  for (int64_t rs = 0; rs < window; ++rs)
    of_pair[rs] += to_f32(krsc[(k * window + rs) * size.packed_C + c]);
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
