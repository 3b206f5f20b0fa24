// Packs whose elements are held over a longer stretch of a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "cuda/mma.cuh"
#include "cuda/pack.cuh"

namespace syncopate::cuda {

// V adjacent elements in registers. bf16 stay in pairs: in a Pack<Bf16>, each
// element kept across rows would take a register of its own and be rounded
// separately.
template <typename T, int V>
struct RowPack {
  Pack<T, V> elems;

  static __device__ __forceinline__ RowPack load(const T* from) {
    return {Pack<T, V>::load(from)};
  }
  __device__ __forceinline__ void store(T* to) const { elems.store(to); }
  __device__ __forceinline__ float get(int index) const {
    return elems.get(index);
  }
  __device__ __forceinline__ void set(const float (&values)[V]) {
    for (int index = 0; index < V; ++index) elems.set(index, values[index]);
  }
};
template <>
struct RowPack<Bf16, kPackElems<Bf16>> {
  static constexpr int kCount = kPackElems<Bf16>;
  using Elems = Pack<Bf16, kCount>;
  uint32_t pairs[kCount / 2];

  static __device__ __forceinline__ RowPack load(const Bf16* from) {
    return std::bit_cast<RowPack>(Elems::load(from));
  }
  __device__ __forceinline__ void store(Bf16* to) const {
    std::bit_cast<Elems>(*this).store(to);
  }
  __device__ __forceinline__ float get(int index) const {
    const uint32_t pair = pairs[index / 2];
    return std::bit_cast<float>(index % 2 == 0 ? pair << 16
                                               : pair & 0xFFFF0000u);
  }
  __device__ __forceinline__ void set(const float (&values)[kCount]) {
    for (int index = 0; index < kCount; index += 2)
      pairs[index / 2] = pack_bf16(values[index], values[index + 1]);
  }
};

}  // namespace syncopate::cuda
