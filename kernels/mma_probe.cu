#include "cuda/mma_probe.h"

#include <cuda/mma.cuh>

#include "ops/context.h"

namespace syncopate::cuda {
namespace {

constexpr int kSide = 16, kColumns = 8;
constexpr int kRowBytes = 16;  // of an 8 x 8 matrix
constexpr int kRowElems = kRowBytes / static_cast<int>(sizeof(Bf16));

__global__ void __launch_bounds__(kWarpSize)
    multiply_fragments_kernel(float* product,
                              const Bf16* a,
                              const Bf16* b,
                              bool is_b_transposed) {
  Bf16* a_rows = shared_memory<Bf16>();
  Bf16* b_rows = a_rows + kSide * kSide;
  const int lane = static_cast<int>(threadIdx.x);
  for (int at = lane * kRowElems; at < kSide * kSide;
       at += kWarpSize * kRowElems)
    copy_async<kRowBytes>(a_rows + at, a + at, true);
  if (lane * kRowElems < kSide * kColumns)
    copy_async<kRowBytes>(b_rows + lane * kRowElems, b + lane * kRowElems,
                          true);
  commit_copies();
  wait_for_copies<0>();
  __syncwarp();
  uint32_t left[4], right[4];
  load_matrices(left, a_rows + lane % 16 * kSide + lane / 16 * 8);
  // b has two matrices; the other two registers hold them again.
  if (is_b_transposed)
    load_matrices(right, b_rows + lane % 8 * kSide + lane / 8 % 2 * 8);
  else
    load_transposed(right, b_rows + lane % 16 * kColumns);
  float sum[4] = {};
  mma(sum, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i)
    product[(lane / 4 + i / 2 * 8) * kColumns + lane % 4 * 2 + i % 2] = sum[i];
}

}  // namespace

void multiply_fragments(Context& context,
                        float* product,
                        const Bf16* a,
                        const Bf16* b,
                        bool is_b_transposed) {
  constexpr int64_t kShared =
      (kSide * kSide + kSide * kColumns) * int64_t{sizeof(Bf16)};
  launch(multiply_fragments_kernel, dim3(1), dim3(kWarpSize), kShared,
         context.stream(), product, a, b, is_b_transposed);
}

}  // namespace syncopate::cuda
