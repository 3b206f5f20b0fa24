// Dense layers as matrix products, row-major. Activations are fp32 or bf16;
// parameters and their gradients are fp32. For products with bf16 activations,
// which are summed in fp32, a parameter is rounded to bf16, or its copy is
// read if it has as many columns as x. On a GPU, x of bf16 may have P > D
// columns, of which those from D on are zero, so that its rows start at
// multiples of 16 bytes; those of dx are then zero as well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"
#include "tensor/shadow.h"

namespace syncopate {

// y = x w^T + b
void linear_forward(Context& context,
                    Tensor y,        // (N, K) fp32 or bf16
                    ConstTensor x,   // (N, P), same type as y
                    ConstWeight w,   // (K, D) fp32
                    ConstWeight b);  // (K) fp32, or data null

// dx = dy w [+ addend], dw += dy^T x, db += the sum of the rows of dy
void linear_backward(Context& context,
                     Tensor dx,       // (N, P) assigned; data null: not needed
                     Tensor dw,       // (K, D) accumulated
                     Tensor db,       // (K) accumulated, or data null
                     ConstTensor dy,  // (N, K)
                     ConstTensor x,
                     ConstWeight w,
                     ConstTensor addend = {});  // as dx, which it must not
                                                // alias; or data null

}  // namespace syncopate
