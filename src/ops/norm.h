// Batch normalisation fused with the steps that follow it in residual networks:
//
//   y = act(gamma * (x - mean) * rstd + beta [+ z])     act = ReLU or identity
//
// per channel over N, H, W; Ioffe & Szegedy 2015. Statistics are computed in
// fp32 in a fixed order, so equal thread counts give equal bits. Activations
// are fp32 or bf16 in any layout, the same throughout a call. (N, C) tensors
// count as H = W = 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate {

enum class Activation : uint8_t { kNone, kRelu };

// running = (1 - momentum) running + momentum batch
constexpr float kBatchNormMomentum = 0.1f;

struct BatchNormParams {
  float epsilon = 1e-5f;  // added to the variance
  float momentum = kBatchNormMomentum;
  Activation activation = Activation::kNone;
};

// Whether batchnorm_forward can store where its activation is positive, for
// batchnorm_backward to read instead of y: on a GPU, for bf16 in packs of eight
// channels.
bool has_relu_mask(DeviceKind device, DType dtype, int64_t C);

// Training: statistics of this batch. running_var receives the unbiased
// variance (n / (n - 1)), as is usual.
struct BatchNormForwardArgs {
  Tensor y;             // (N, C, H, W); must not alias x
  Tensor mean;          // (C) fp32, for backward
  Tensor rstd;          // (C) fp32, for backward
  Tensor running_mean;  // (C) fp32, updated
  Tensor running_var;   // (C) fp32, updated
  ConstTensor x;        // (N, C, H, W)
  ConstTensor gamma;    // (C) fp32
  ConstTensor beta;     // (C) fp32
  ConstTensor z = {};   // (N, C, H, W) residual, or data null
  // (N C H W / 8) kU8, assigned, with ReLU and z only: bit i % 8 of byte i / 8
  // tells whether element i of y, in memory, is positive. Or data null
  Tensor mask = {};
  BatchNormParams params = {};
};
void batchnorm_forward(Context& context, const BatchNormForwardArgs& args);

// Evaluation with the running statistics.
struct BatchNormInferenceArgs {
  Tensor y;       // (N, C, H, W); may alias x or z
  ConstTensor x;  // (N, C, H, W)
  ConstTensor running_mean;
  ConstTensor running_var;
  ConstTensor gamma;
  ConstTensor beta;
  ConstTensor z = {};  // (N, C, H, W) residual, or data null
  BatchNormParams params = {};
};
void batchnorm_inference(Context& context, const BatchNormInferenceArgs& args);

// The gradient of y is dy, or where y has two readers the sum of their
// gradients dy + dy2, rounded to the element type as add() would. With ReLU it
// passes where y was positive: the mask or y tells so where there was a
// residual, otherwise the expression of the forward pass is evaluated again
// from x. dz is the gradient of the residual input: that of y through the
// activation alone.
struct BatchNormBackwardArgs {
  Tensor dx;       // (N, C, H, W), assigned; may alias dy or dy2
  Tensor dz = {};  // (N, C, H, W), assigned; data null if there was no z; may
                   // alias dy or dy2, must not alias dx
  Tensor dgamma;   // (C) fp32, accumulated
  Tensor dbeta;    // (C) fp32, accumulated
  ConstTensor dy;
  ConstTensor dy2 = {};   // (N, C, H, W), or data null
  ConstTensor x;          // as in forward
  ConstTensor y = {};     // as in forward; read only with dz and ReLU, and only
                          // without a mask
  ConstTensor mask = {};  // as in forward, or data null
  ConstTensor gamma;
  ConstTensor beta;
  ConstTensor mean;
  ConstTensor rstd;
  BatchNormParams params = {};
};
void batchnorm_backward(Context& context, const BatchNormBackwardArgs& args);

}  // namespace syncopate
