// The parts of CUDA that kernels need: launch, shared memory, element
// conversion. The tests' emulator has its own file of this name, selected by
// include path, so files of the parent folder write <cuda/platform.h> (in
// quotes it would always be this file).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "device/cuda/cuda_launch.h"
#include "device/device.h"
#include "tensor/tensor.h"

// Before a loop: unrolls it `count` times.
#define SYNCOPATE_PRAGMA(text) _Pragma(#text)
#define SYNCOPATE_UNROLL(count) SYNCOPATE_PRAGMA(unroll count)

namespace syncopate {

inline constexpr int kWarpSize = 32;

// The block's dynamic shared memory (launch's `shared_bytes`), aligned to 16.
template <typename T>
__device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
}

// Runs kernel<<<grid, block, shared_bytes>>> on the stream; an empty grid does
// nothing. Arguments are converted to the kernel's parameter types.
template <typename... Parameters, typename... Args>
void launch(void (*kernel)(Parameters...),
            dim3 grid,
            dim3 block,
            int64_t shared_bytes,
            Stream& stream,
            const Args&... args) {
  static_assert(sizeof...(Parameters) == sizeof...(Args));
  // The runtime takes addresses of copies of the right types.
  [&](Parameters... values) {
    void* addresses[] = {static_cast<void*>(&values)..., nullptr};
    launch_kernel(reinterpret_cast<const void*>(kernel), grid, block,
                  shared_bytes, stream, addresses);
  }(static_cast<Parameters>(args)...);
}

__device__ inline float to_f32(float value) {
  return value;
}
__device__ inline float to_f32(Bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

// Rounds to nearest even.
template <typename T>
__device__ T from_f32(float value);
template <>
__device__ inline float from_f32<float>(float value) {
  return value;
}
template <>
__device__ inline Bf16 from_f32<Bf16>(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}

}  // namespace syncopate
