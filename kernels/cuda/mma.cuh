// Products on tensor cores and the copies that feed them. The tests' emulator
// has its own file of this name. Fragments have the layout of the PTX ISA
// ("Matrix Fragments for mma.m16n8k16"): with group = lane / 4, t = lane % 4,
//
//   A (16, 16)  register r, half h: row group + r % 2 * 8,
//                                   column 2 t + h + r / 2 * 8
//   B (16, 8)   register r, half h: row 2 t + h + r * 8, column group
//   C (16, 8)   element i:          row group + i / 2 * 8, column 2 t + i % 2
//
// All lanes of a warp must call mma() and load_matrices() together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_bf16.h>

#include "cuda/platform.h"

namespace syncopate::cuda {

// Two fp32 as bf16, `low` in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return static_cast<uint32_t>(__bfloat16_as_ushort(pair.y)) << 16 |
         __bfloat16_as_ushort(pair.x);
}

// sum (16, 8) += a (16, 16) * b (16, 8), b given by its two registers.
__device__ __forceinline__ void mma(float (&sum)[4],
                                    const uint32_t (&a)[4],
                                    uint32_t b0,
                                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t shared_address(const void* memory) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(memory));
}

// Loads four 8 x 8 matrices: lane l names row l % 8 of matrix l / 8, in shared
// memory, at a multiple of 16 bytes. Register m of a lane holds elements
// (group, 2 t) and (group, 2 t + 1) of matrix m, or those of its transpose.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4],
                                              const Bf16* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(shared_address(row))
      : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&to)[4],
                                                const Bf16* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(shared_address(row))
      : "memory");
}

// Starts to copy kBytes (4 or 16) to shared memory, or zeros if not `is_in`;
// `from` is then not read, but must be an address of global memory. Both
// addresses are multiples of kBytes. The thread sees what it copied after
// wait_for_copies(), other threads after a barrier that follows it.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to,
                                           const void* from,
                                           bool is_in) {
  static_assert(kBytes == 4 || kBytes == 16);
  const int taken = is_in ? kBytes : 0;
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)),
                   "r"(taken)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)),
                   "r"(taken)
                 : "memory");
}

// Closes the thread's group of copies, which may be empty.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits for all closed groups of the thread but the kPending latest.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace syncopate::cuda
