// Element-wise activations that are not fused into another op.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate {

// y = x Phi(x), with Phi the normal distribution function through erf
// (Hendrycks and Gimpel 2016; BERT's form, not the tanh approximation). y may
// alias x.
void gelu_forward(Context& context,
                  Tensor y,        // any shape, fp32 or bf16
                  ConstTensor x);  // same as y

// Assigns dx = dy (Phi(x) + x phi(x)), where phi is the normal density. dx may
// alias dy or x.
void gelu_backward(Context& context, Tensor dx, ConstTensor dy, ConstTensor x);

}  // namespace syncopate
