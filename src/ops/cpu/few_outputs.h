// Dense layers of a few outputs, whose products read x once and compute little:
// loops of our own, bound by memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate::cpu {

inline constexpr int64_t kMostFewOutputs = 4;

// linear_forward and linear_backward (ops/matmul.h) without db, of at most
// kMostFewOutputs outputs. Bits do not depend on threads. Uses scratch 0.
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
