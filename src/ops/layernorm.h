// Layer normalisation fused with what precedes it in a post-norm transformer:
// dropout of a sub-layer's result and the residual sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/sequences.h"

namespace syncopate {

//   z = dropout(x) + residual
//   y = gamma * (z - mean(z)) * rstd + beta
//   rstd = 1 / sqrt(var(z) + epsilon)
//
// per row, with the biased variance (Ba et al. 2016).
struct LayerNormForwardArgs {
  Tensor y;       // (T, H) fp32 or bf16; must not alias z or x
  Tensor z = {};  // (T, H), dtype of y; may alias x; data null if backward does
                  // not follow
  Tensor mean;    // (T) fp32
  Tensor rstd;    // (T) fp32
  ConstTensor x;  // (T, H)
  ConstTensor residual = {};  // (T, H), or data null
  ConstTensor gamma;          // (H) fp32
  ConstTensor beta;           // (H) fp32
  float epsilon;              // added to the variance
  Sequences sequences = {};   // read only if something is dropped
  TokenDropout dropout = {};
};
void layernorm_forward(Context& context, const LayerNormForwardArgs& args);

struct LayerNormBackwardArgs {
  Tensor dx;              // (T, H) assigned; may alias dy
  Tensor dresidual = {};  // (T, H) assigned; data null if there was no
                          // residual; must not alias dy or dx
  Tensor dgamma;          // (H) fp32, accumulated
  Tensor dbeta;           // (H) fp32, accumulated
  Tensor dbias = {};      // (H) fp32, accumulated: the sum of the rows of dx as
                          // stored, the gradient of a bias in x; or data null
  ConstTensor dy;
  ConstTensor z;  // as forward left it
  ConstTensor mean;
  ConstTensor rstd;
  ConstTensor gamma;
  Sequences sequences = {};  // as in forward
  TokenDropout dropout = {};
};
void layernorm_backward(Context& context, const LayerNormBackwardArgs& args);

}  // namespace syncopate
