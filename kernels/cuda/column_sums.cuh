// Sums over the rows of a matrix (N, K), in an order that N alone determines:
// as a pass of its own, or in the kernel that computes the matrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/pack.cuh"

namespace syncopate::cuda {

// A block sums the rows of one piece for the columns of kWarpSize packs. Its
// warps take rows in turn; their sums are added in warp order, and those of the
// pieces in piece order (add_parts of cuda/bias.h).
inline constexpr int kSumWarps = 8, kSumThreads = kSumWarps * kWarpSize;

struct RowPieces {
  int64_t rows, count;  // rows of a piece
};
inline RowPieces row_pieces(int64_t N) {
  constexpr int64_t kFewestRows = 64, kMostPieces = 64;
  const int64_t even = ceil_div(N, kMostPieces);
  const int64_t rows = kFewestRows > even ? kFewestRows : even;
  return {rows, ceil_div(N, rows)};
}

// Launches a kernel that calls sum_columns<P> once in each thread.
template <typename P, typename... Parameters, typename... Args>
void launch_sums(void (*kernel)(Parameters...),
                 Stream& stream,
                 int64_t K,
                 const RowPieces& pieces,
                 const Args&... args) {
  constexpr int64_t kColumns = kWarpSize * P::kCount;
  const int64_t blocks = ceil_div(K, kColumns);
  CHECK_MSG(blocks <= INT32_MAX, "{} blocks", blocks);
  launch(
      kernel,
      dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(pieces.count)),
      dim3(kWarpSize, kSumWarps), kSumWarps * kColumns * int64_t{sizeof(float)},
      stream, args...);
}

// parts[piece,k] = sum of pack_at(n, k) over the rows n of the piece, where
// pack_at(n, k) returns the elements (n, k), (n, k + 1), ... and is called once
// for each pack.
template <typename P, typename PackAt>
__device__ __forceinline__ void sum_columns(float* parts,  // (pieces, K)
                                            int64_t N,
                                            int64_t K,
                                            int64_t rows_of_piece,
                                            const PackAt& pack_at) {
  constexpr int kColumns = kWarpSize * P::kCount;
  float* of_warps = shared_memory<float>();  // (kSumWarps, kColumns)
  const int lane = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.y);
  const int64_t first_column = int64_t{blockIdx.x} * kColumns;
  const int64_t k = first_column + lane * P::kCount;
  const int64_t begin = blockIdx.y * rows_of_piece;
  const int64_t end = lesser(N, begin + rows_of_piece);
  float sum[P::kCount] = {};
  if (k < K)
    for (int64_t n = begin + warp; n < end; n += kSumWarps) {
      const P values = pack_at(n, k);
      for (int i = 0; i < P::kCount; ++i) sum[i] += values.get(i);
    }
  for (int i = 0; i < P::kCount; ++i)
    of_warps[warp * kColumns + lane * P::kCount + i] = sum[i];
  __syncthreads();
  for (int column = warp * kWarpSize + lane; column < kColumns;
       column += kSumThreads) {
    if (first_column + column >= K) break;
    float total = 0;
    for (int of = 0; of < kSumWarps; ++of)
      total += of_warps[of * kColumns + column];
    parts[blockIdx.y * K + first_column + column] = total;
  }
}

}  // namespace syncopate::cuda
