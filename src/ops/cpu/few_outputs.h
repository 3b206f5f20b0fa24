// Dense layers with few outputs, whose products read x once and compute little:
// hand-written, memory-bound loops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate::cpu {

inline constexpr int64_t kMostFewOutputs = 4;

// linear_forward and linear_backward (ops/matmul.h) without db, for at most
// kMostFewOutputs outputs. Results do not depend on threads. Uses scratch 0.
void few_outputs_forward(Context& context,
                         const Tensor& y,
                         const ConstTensor& x,
                         const ConstTensor& w,
                         const ConstTensor& b);
void few_outputs_backward(Context& context,
                          const Tensor& dx,
                          const Tensor& dw,
                          const ConstTensor& dy,
                          const ConstTensor& x,
                          const ConstTensor& w);

}  // namespace syncopate::cpu
