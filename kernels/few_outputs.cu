#include "cuda/few_outputs.h"

#include "cuda/bias.h"
#include "cuda/pack.cuh"
#include "cuda/range.cuh"
#include "cuda/reduce.cuh"

namespace syncopate::cuda {
namespace {

// Outputs are handled in groups of kGroup, so that x is read once per group.
constexpr int kGroup = kFewOutputs;
constexpr int kWarps = 8, kFewThreads = kWarps * kWarpSize;
constexpr int64_t kFewestRows = 64, kMostPieces = 256;

struct FewSize {
  int64_t N, P, D, K;  // x has P >= D columns
};

FewSize size_of(const ConstTensor& x, const ConstTensor& w) {
  return {x.shape[0], x.shape[1], w.shape[1], w.shape[0]};
}

// The value that w has in products with T.
template <typename T>
__device__ __forceinline__ float rounded(float value) {
  return to_f32(from_f32<T>(value));
}

// A warp computes a row's outputs of one group: lane l adds elements l, l + 32,
// ..., then lanes are added.
template <typename T>
__global__ void __launch_bounds__(kFewThreads)
    few_forward_kernel(T* y,
                       const T* x,
                       const float* w,
                       const float* b,
                       FewSize size) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t groups = ceil_div(size.K, kGroup);
  const int64_t warps = int64_t{gridDim.x} * kWarps;
  for (int64_t item = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize;
       item < size.N * groups; item += warps) {
    const int64_t n = item / groups, first = item % groups * kGroup;
    float sums[kGroup] = {};
    for (int64_t d = lane; d < size.D; d += kWarpSize) {
      const float value = to_f32(x[n * size.P + d]);
      for (int k = 0; k < kGroup; ++k)
        if (first + k < size.K)
          sums[k] += value * rounded<T>(w[(first + k) * size.D + d]);
    }
    for (int k = 0; k < kGroup; ++k) {
      const float sum = warp_sum(sums[k]);
      if (lane == 0 && first + k < size.K)
        y[n * size.K + first + k] =
            from_f32<T>(b == nullptr ? sum : sum + rounded<T>(b[first + k]));
    }
  }
}

// A thread computes elements of dx.
template <typename T>
__global__ void __launch_bounds__(kFewThreads)
    few_inputs_kernel(T* dx, const T* dy, const float* w, FewSize size) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       at < size.N * size.P; at += threads) {
    const int64_t n = at / size.P, d = at % size.P;
    float sum = 0;
    for (int64_t k = 0; d < size.D && k < size.K; ++k)
      sum += to_f32(dy[n * size.K + k]) * rounded<T>(w[k * size.D + d]);
    dx[at] = from_f32<T>(sum);
  }
}

// A block sums the rows of one piece for kWarpSize columns and a group of
// outputs. Its warps take rows in turn; their sums are added in warp order.
template <typename T>
__global__ void __launch_bounds__(kFewThreads)
    few_weights_kernel(float* parts,  // (pieces, K, D)
                       const T* dy,
                       const T* x,
                       FewSize size,
                       int64_t rows_of_piece) {
  float* of_warps = shared_memory<float>();  // (kWarps, kGroup, kWarpSize)
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t columns = ceil_div(size.D, kWarpSize);
  const int64_t d = blockIdx.x % columns * kWarpSize + lane;
  const int64_t first = blockIdx.x / columns * kGroup;
  const int64_t begin = blockIdx.y * rows_of_piece;
  const int64_t end = lesser(size.N, begin + rows_of_piece);
  float sums[kGroup] = {};
  if (d < size.D)
    for (int64_t n = begin + warp; n < end; n += kWarps) {
      const float value = to_f32(x[n * size.P + d]);
      for (int k = 0; k < kGroup; ++k)
        if (first + k < size.K)
          sums[k] += to_f32(dy[n * size.K + first + k]) * value;
    }
  for (int k = 0; k < kGroup; ++k)
    of_warps[(warp * kGroup + k) * kWarpSize + lane] = sums[k];
  __syncthreads();
  // As many warps as outputs in a group: each adds one output's.
  static_assert(kWarps == kGroup);
  if (d >= size.D || first + warp >= size.K) return;
  float total = 0;
  for (int of = 0; of < kWarps; ++of)
    total += of_warps[(of * kGroup + warp) * kWarpSize + lane];
  parts[(blockIdx.y * size.K + first + warp) * size.D + d] = total;
}

template <typename T>
void add_weight_gradients(Context& context,
                          float* dw,
                          const T* dy,
                          const T* x,
                          const FewSize& size) {
  const int64_t even = ceil_div(size.N, kMostPieces);
  const int64_t rows = kFewestRows > even ? kFewestRows : even;
  const int64_t pieces = ceil_div(size.N, rows);
  const int64_t blocks = ceil_div(size.D, kWarpSize) * ceil_div(size.K, kGroup);
  CHECK_MSG(blocks <= INT32_MAX, "{} blocks", blocks);
  auto* parts = static_cast<float*>(
      context.scratch(pieces * size.K * size.D * int64_t{sizeof(float)}, 2));
  launch(few_weights_kernel<T>,
         dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(pieces)),
         dim3(kFewThreads), kFewThreads * kGroup * int64_t{sizeof(float)},
         context.stream(), parts, dy, x, size, rows);
  add_parts(context, dw, parts, pieces, size.K * size.D);
}

template <typename Body>
void with_dtype(DType dtype, const Body& body) {
  if (dtype == DType::kBf16)
    body(Bf16());
  else
    body(float());
}

}  // namespace

void few_outputs_forward(Context& context,
                         Tensor y,
                         ConstTensor x,
                         ConstTensor w,
                         ConstTensor b) {
  const FewSize size = size_of(x, w);
  if (size.N == 0 || size.K == 0) return;
  with_dtype(x.dtype, [&](auto elem) {
    using T = decltype(elem);
    launch(few_forward_kernel<T>,
           dim3(grid_for(size.N * ceil_div(size.K, kGroup), kWarps)),
           dim3(kFewThreads), 0, context.stream(), static_cast<T*>(y.data),
           static_cast<const T*>(x.data), w.f32(),
           b.data != nullptr ? b.f32() : nullptr, size);
  });
}

void few_outputs_backward(Context& context,
                          Tensor dx,
                          Tensor dw,
                          Tensor db,
                          ConstTensor dy,
                          ConstTensor x,
                          ConstTensor w) {
  const FewSize size = size_of(x, w);
  if (size.N == 0 || size.K == 0) return;
  with_dtype(x.dtype, [&](auto elem) {
    using T = decltype(elem);
    const auto* upstream = static_cast<const T*>(dy.data);
    if (dx.data != nullptr && size.D > 0)
      launch(few_inputs_kernel<T>, dim3(grid_for(size.N * size.P, kFewThreads)),
             dim3(kFewThreads), 0, context.stream(), static_cast<T*>(dx.data),
             upstream, w.f32(), size);
    if (dw.data != nullptr && size.D > 0)
      add_weight_gradients(context, dw.f32(), upstream,
                           static_cast<const T*>(x.data), size);
  });
  if (db.data != nullptr)
    accumulate_bias(context, db.f32(), dy.data, dy.dtype, size.N, size.K);
}

}  // namespace syncopate::cuda
