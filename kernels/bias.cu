#include "cuda/bias.h"

#include "cuda/pack.cuh"

namespace syncopate::cuda {
namespace {

// A block sums the rows of one piece for the columns of kWarpSize packs. Its
// warps take rows in turn; their sums are added in warp order, and those of the
// pieces in piece order. N alone thus determines the order of every sum.
constexpr int kWarps = 8, kSumThreads = kWarps * kWarpSize;
constexpr int kAddThreads = 128;
constexpr int64_t kFewestRows = 64, kMostPieces = 64;

template <typename P>
__global__ void __launch_bounds__(kSumThreads)
    sum_columns_kernel(float* parts,  // (pieces, K)
                       const typename P::Elem* dy,
                       int64_t N,
                       int64_t K,
                       int64_t rows_of_piece) {
  constexpr int kColumns = kWarpSize * P::kCount;
  float* of_warps = shared_memory<float>();  // (kWarps, kColumns)
  const int lane = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.y);
  const int64_t first_column = int64_t{blockIdx.x} * kColumns;
  const int64_t k = first_column + lane * P::kCount;
  const int64_t begin = blockIdx.y * rows_of_piece;
  const int64_t end = lesser(N, begin + rows_of_piece);
  float sum[P::kCount] = {};
  if (k < K)
    for (int64_t n = begin + warp; n < end; n += kWarps) {
      const P values = P::load(dy + n * K + k);
      for (int i = 0; i < P::kCount; ++i) sum[i] += values.get(i);
    }
  for (int i = 0; i < P::kCount; ++i)
    of_warps[warp * kColumns + lane * P::kCount + i] = sum[i];
  __syncthreads();
  for (int column = warp * kWarpSize + lane; column < kColumns;
       column += kWarps * kWarpSize) {
    if (first_column + column >= K) break;
    float total = 0;
    for (int of = 0; of < kWarps; ++of)
      total += of_warps[of * kColumns + column];
    parts[blockIdx.y * K + first_column + column] = total;
  }
}

__global__ void __launch_bounds__(kAddThreads)
    add_parts_kernel(float* db, const float* parts, int64_t pieces, int64_t K) {
  const int64_t k = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= K) return;
  float total = 0;
  for (int64_t piece = 0; piece < pieces; ++piece)
    total += parts[piece * K + k];
  db[k] += total;
}

}  // namespace

void accumulate_bias(Context& context,
                     float* db,
                     const void* dy,
                     DType dtype,
                     int64_t N,
                     int64_t K) {
  if (N == 0 || K == 0) return;
  const int64_t rows = kFewestRows > ceil_div(N, kMostPieces)
                           ? kFewestRows
                           : ceil_div(N, kMostPieces);
  const int64_t pieces = ceil_div(N, rows);
  auto* parts = static_cast<float*>(
      context.scratch(pieces * K * int64_t{sizeof(float)}, 2));
  with_pack(dtype, K, {dy}, [&](auto pack) {
    using P = decltype(pack);
    constexpr int64_t kColumns = kWarpSize * P::kCount;
    const int64_t blocks = ceil_div(K, kColumns);
    CHECK_MSG(blocks <= INT32_MAX, "{} blocks", blocks);
    launch(sum_columns_kernel<P>,
           dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(pieces)),
           dim3(kWarpSize, kWarps), kWarps * kColumns * int64_t{sizeof(float)},
           context.stream(), parts, static_cast<const typename P::Elem*>(dy), N,
           K, rows);
  });
  add_parts(context, db, parts, pieces, K);
}

void add_parts(Context& context,
               float* to,
               const float* parts,
               int64_t pieces,
               int64_t elems) {
  const int64_t blocks = ceil_div(elems, kAddThreads);
  CHECK_MSG(blocks <= INT32_MAX, "{} blocks", blocks);
  launch(add_parts_kernel, dim3(static_cast<unsigned>(blocks)),
         dim3(kAddThreads), 0, context.stream(), to, parts, pieces, elems);
}

}  // namespace syncopate::cuda
