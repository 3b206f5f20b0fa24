// Memory in packs of 16 bytes, the most that a thread loads or stores at a
// time, and grids over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

#include "cuda/platform.h"
#include "tensor/tensor.h"

namespace syncopate::cuda {

template <typename T>
inline constexpr int kPackElems = static_cast<int>(16 / sizeof(T));

// kElems adjacent elements, read and written in one access; the address must be
// a multiple of the pack's size. kElems 1 is the scalar path.
template <typename T, int kElems = kPackElems<T>>
struct alignas(kElems * sizeof(T)) Pack {
  using Elem = T;
  static constexpr int kCount = kElems;
  T elem[kElems];

  static __device__ __forceinline__ Pack load(const T* from) {
    return *reinterpret_cast<const Pack*>(from);
  }
  __device__ __forceinline__ void store(T* to) const {
    *reinterpret_cast<Pack*>(to) = *this;
  }
  // Arithmetic is done in fp32.
  __device__ __forceinline__ float get(int index) const {
    return to_f32(elem[index]);
  }
  __device__ __forceinline__ void set(int index, float value) {
    elem[index] = from_f32<T>(value);
  }
};

// Whether packs of T may start at `memory` (null: yes).
template <typename T>
__host__ __device__ inline bool is_pack_aligned(const T* memory) {
  return reinterpret_cast<uintptr_t>(memory) % sizeof(Pack<T>) == 0;
}

// Calls body(pack) with a Pack<float or Bf16> of 16 bytes if each row of C
// elements and all of `memory` allow it, else of one element; only its type
// matters.
template <typename Body>
void with_pack(DType dtype,
               int64_t C,
               std::initializer_list<const void*> memory,
               const Body& body) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBf16);
  bool is_wide = C % (16 / bytes_of(dtype)) == 0;
  for (const void* address : memory)
    is_wide = is_wide && reinterpret_cast<uintptr_t>(address) % 16 == 0;
  if (dtype == DType::kF32)
    is_wide ? body(Pack<float>()) : body(Pack<float, 1>());
  else
    is_wide ? body(Pack<Bf16>()) : body(Pack<Bf16, 1>());
}

__host__ __device__ constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

template <typename T>
__host__ __device__ constexpr T lesser(T a, T b) {
  return a < b ? a : b;
}

// Blocks for `items` (at least one each) in a grid-stride loop. The cap is
// eight blocks for each of about 256 multiprocessors, enough to fill any GPU.
constexpr unsigned grid_for(int64_t items, int64_t items_per_block) {
  constexpr int64_t kMaxBlocks = 2048;
  const int64_t blocks = ceil_div(items, items_per_block);
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

}  // namespace syncopate::cuda
