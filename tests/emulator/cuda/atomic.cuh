// The twin of kernels/cuda/atomic.cuh: lanes take turns and are left before an
// atomic operation but not in it, so that a plain addition is whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/platform.h"

namespace syncopate::cuda {

inline void add_atomically(uint32_t* to, uint32_t value) {
  emulator::pass_turn();
  *to += value;
}

inline void raise_atomically(int64_t* to, int64_t value) {
  emulator::pass_turn();
  if (value > *to) *to = value;
}

}  // namespace syncopate::cuda
