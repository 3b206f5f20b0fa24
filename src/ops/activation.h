// Element-wise activations that are not fused into another op.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate {

// y = x Phi(x), with Phi the normal distribution function through erf
// (Hendrycks and Gimpel 2016; BERT's form, not the tanh approximation), exact
// to fp32. On a GPU bf16 is computed with a relative error of Phi(-|x|) below
// 5e-5, a hundredth of what rounding to bf16 adds. y may alias x.
void gelu_forward(Context& context,
                  Tensor y,        // any shape, fp32 or bf16
                  ConstTensor x);  // same as y

// Assigns dx = dy (Phi(x) + x phi(x)), where phi is the normal density. dx may
// alias dy or x. If the rows of x are results of a dense layer with a bias, dx
// is also summed for that: dbias[k] += sum_n dx[n,k], of dx as stored.
void gelu_backward(Context& context,
                   Tensor dx,
                   ConstTensor dy,
                   ConstTensor x,
                   Tensor dbias = {});  // (K) fp32, where x is (N, K); or data
                                        // null

}  // namespace syncopate
