// Swish (Ramachandran, Zoph and Le 2017 with beta = 1; SiLU).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate {

// y = x s(x), with s(x) = 1 / (1 + exp(-x)). y may alias x.
void swish_forward(Context& context,
                   Tensor y,        // any shape, fp32 or bf16
                   ConstTensor x);  // same as y

// Assigns dx = dy (s(x) + x s(x) (1 - s(x))). dx may alias dy or x.
void swish_backward(Context& context, Tensor dx, ConstTensor dy, ConstTensor x);

}  // namespace syncopate
