// Sixteen floats as one value: the width of a channel block, of an AVX-512
// register and of half a cache line of bf16. Uses GCC's vector types, which
// compile to the instructions of any processor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

// Everything here is inlined, and so must be any function that takes or returns
// such vectors: their calling convention differs between processors.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace syncopate::cpu {

constexpr int kLanes = 16;
using F16 = float __attribute__((vector_size(64)));
using U16 = uint32_t __attribute__((vector_size(64)));
using H16 = uint16_t __attribute__((vector_size(32)));
using B16 = uint8_t __attribute__((vector_size(16)));
using D16 = double __attribute__((vector_size(128)));

constexpr U16 kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

[[gnu::always_inline]] inline F16 splat(float value) {
  return value - F16{};
}

[[gnu::always_inline]] inline F16 load(const float* from) {
  F16 value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

[[gnu::always_inline]] inline F16 load(const Bf16* from) {
  H16 half;
  __builtin_memcpy(&half, from, sizeof half);
  return reinterpret_cast<F16>(__builtin_convertvector(half, U16) << 16);
}

[[gnu::always_inline]] inline void store(float* to, F16 value) {
  __builtin_memcpy(to, &value, sizeof value);
}

// Rounds to nearest even; NaN stays a (quiet) NaN, as in to_bf16().
[[gnu::always_inline]] inline void store(Bf16* to, F16 value) {
  const U16 bits = reinterpret_cast<U16>(value);
  const U16 rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const U16 quiet = (bits >> 16) | 0x40;
  const H16 half =
      __builtin_convertvector(value == value ? rounded : quiet, H16);
  __builtin_memcpy(to, &half, sizeof half);
}

inline float to_float(float value) {
  return value;
}
using syncopate::to_float;
inline void assign(float& to, float value) {
  to = value;
}
inline void assign(Bf16& to, float value) {
  to = to_bf16(value);
}

[[gnu::always_inline]] inline D16 to_double(F16 value) {
  return __builtin_convertvector(value, D16);
}

// How a group of up to sixteen channels is read and written: contiguous lanes,
// or some lanes at any distance (the rest read as zero).
struct AllLanes {
  template <typename T>
  [[gnu::always_inline]] F16 get(const T* from) const {
    return load(from);
  }
  template <typename T>
  [[gnu::always_inline]] void put(T* to, F16 value) const {
    store(to, value);
  }
};

struct SomeLanes {
  int lanes;
  int64_t stride;
  template <typename T>
  [[gnu::always_inline]] F16 get(const T* from) const {
    float value[kLanes] = {};
    for (int lane = 0; lane < lanes; ++lane)
      value[lane] = to_float(from[lane * stride]);
    return load(value);
  }
  template <typename T>
  [[gnu::always_inline]] void put(T* to, F16 vector) const {
    float value[kLanes];
    store(value, vector);
    for (int lane = 0; lane < lanes; ++lane)
      assign(to[lane * stride], value[lane]);
  }
};

// The same channels in a tensor whose lanes are `stride` apart.
inline AllLanes at_stride(const AllLanes& lanes, int64_t) {
  return lanes;
}
inline SomeLanes at_stride(const SomeLanes& lanes, int64_t stride) {
  return {lanes.lanes, stride};
}

// Calls body(lanes, i) for i = begin, begin + 16, ... of a flat range; the last
// call has fewer lanes and computes them with the same instructions.
template <typename Body>
void for_vectors(int64_t begin, int64_t end, const Body& body) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) body(AllLanes{}, i);
  if (i < end) body(SomeLanes{static_cast<int>(end - i), 1}, i);
}

// Calls body(float{}) or body(Bf16{}) to select a template's element type.
template <typename Body>
void with_float_type(DType dtype, const Body& body) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBf16);
  if (dtype == DType::kF32)
    body(float{});
  else
    body(Bf16{});
}

}  // namespace syncopate::cpu
