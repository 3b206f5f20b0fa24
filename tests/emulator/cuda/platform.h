// CUDA's words for kernel files compiled by the host compiler: the twin of
// the header of this name that nvcc sees, with the same names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device/device.h"
#include "emulator/lanes.h"
#include "tensor/tensor.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define SYNCOPATE_UNROLL(count)

inline void __syncthreads(
    std::source_location site = std::source_location::current()) {
  syncopate::emulator::block_barrier(site);
}

inline void __syncwarp(
    unsigned mask = 0xFFFFFFFFu,
    std::source_location site = std::source_location::current()) {
  syncopate::emulator::meet_in_warp(
      {.op = syncopate::emulator::WarpOp::kSync, .mask = mask, .site = site});
}

namespace syncopate::emulator {

template <typename T>
T shuffle(WarpCall call, T value) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                "CUDA shuffles numbers of 4 or 8 bytes");
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  call.value = std::bit_cast<Bits>(value);
  return std::bit_cast<T>(static_cast<Bits>(meet_in_warp(call)));
}

}  // namespace syncopate::emulator

template <typename T>
T __shfl_sync(unsigned mask,
              T value,
              int source_lane,
              int width = syncopate::kWarpSize,
              std::source_location site = std::source_location::current()) {
  return syncopate::emulator::shuffle(
      {.op = syncopate::emulator::WarpOp::kShuffle,
       .mask = mask,
       .operand = source_lane,
       .width = width,
       .site = site},
      value);
}

template <typename T>
T __shfl_xor_sync(unsigned mask,
                  T value,
                  int lane_mask,
                  int width = syncopate::kWarpSize,
                  std::source_location site = std::source_location::current()) {
  return syncopate::emulator::shuffle(
      {.op = syncopate::emulator::WarpOp::kShuffleXor,
       .mask = mask,
       .operand = lane_mask,
       .width = width,
       .site = site},
      value);
}

template <typename T>
T __shfl_down_sync(
    unsigned mask,
    T value,
    unsigned distance,
    int width = syncopate::kWarpSize,
    std::source_location site = std::source_location::current()) {
  return syncopate::emulator::shuffle(
      {.op = syncopate::emulator::WarpOp::kShuffleDown,
       .mask = mask,
       .operand = static_cast<int>(distance),
       .width = width,
       .site = site},
      value);
}

inline unsigned __ballot_sync(
    unsigned mask,
    int predicate,
    std::source_location site = std::source_location::current()) {
  return static_cast<unsigned>(syncopate::emulator::meet_in_warp(
      {.op = syncopate::emulator::WarpOp::kBallot,
       .mask = mask,
       .value = predicate != 0,
       .site = site}));
}

inline int __any_sync(
    unsigned mask,
    int predicate,
    std::source_location site = std::source_location::current()) {
  return static_cast<int>(syncopate::emulator::meet_in_warp(
      {.op = syncopate::emulator::WarpOp::kAny,
       .mask = mask,
       .value = predicate != 0,
       .site = site}));
}

inline int __all_sync(
    unsigned mask,
    int predicate,
    std::source_location site = std::source_location::current()) {
  return static_cast<int>(syncopate::emulator::meet_in_warp(
      {.op = syncopate::emulator::WarpOp::kAll,
       .mask = mask,
       .value = predicate != 0,
       .site = site}));
}

inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}

namespace syncopate {

// The block's dynamic shared memory, aligned to 16 bytes.
template <typename T>
T* shared_memory() {
  return reinterpret_cast<T*>(emulator::shared_memory_of_block());
}

inline float to_f32(float value) {
  return value;
}
inline float to_f32(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Round to nearest even; NaN stays NaN.
template <typename T>
T from_f32(float value) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, Bf16>);
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (value != value) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
    const uint32_t round = 0x7FFF + ((bits >> 16) & 1);
    return {static_cast<uint16_t>((bits + round) >> 16)};
  }
}

template <typename... P, typename... A>
void launch(void (*kernel)(P...),
            dim3 grid,
            dim3 block,
            int64_t shared_bytes,
            Stream& stream,
            A&&... args) {
  static_assert((std::is_trivially_copyable_v<P> && ...),
                "kernel parameters are copied bytewise to the device");
  static_assert((size_t{0} + ... + sizeof(P)) <= 4096,
                "CUDA's limit on the bytes of kernel parameters");
  const auto convert = [](P... values) { return std::tuple<P...>(values...); };
  emulator::enqueue(
      stream, {.kernel = reinterpret_cast<const void*>(kernel),
               .grid = grid,
               .block = block,
               .shared_bytes = shared_bytes,
               .thread = [kernel, values = convert(std::forward<A>(args)...)] {
                 std::apply(kernel, values);
               }});
}

}  // namespace syncopate
