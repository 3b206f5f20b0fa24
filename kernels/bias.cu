#include "cuda/bias.h"

#include "cuda/column_sums.cuh"

namespace syncopate::cuda {
namespace {

constexpr int kAddThreads = 128;

template <typename P>
__global__ void __launch_bounds__(kSumThreads)
    sum_columns_kernel(float* parts,  // (pieces, K)
                       const typename P::Elem* dy,
                       int64_t N,
                       int64_t K,
                       int64_t rows_of_piece) {
  sum_columns<P>(parts, N, K, rows_of_piece,
                 [&](int64_t n, int64_t k) { return P::load(dy + n * K + k); });
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
  const RowPieces pieces = row_pieces(N);
  auto* parts = static_cast<float*>(
      context.scratch(pieces.count * K * int64_t{sizeof(float)}, 2));
  with_pack(dtype, K, {dy}, [&](auto pack) {
    using P = decltype(pack);
    launch_sums<P>(sum_columns_kernel<P>, context.stream(), K, pieces, parts,
                   static_cast<const typename P::Elem*>(dy), N, K, pieces.rows);
  });
  add_parts(context, db, parts, pieces.count, K);
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
