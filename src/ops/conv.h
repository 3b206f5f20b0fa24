// 2-D convolution (cross-correlation) without bias, forward and backward.
//
//   y[n,k,p,q] = sum_{c,r,s} x[n,c,p*stride-pad+r,q*stride-pad+s] w[k,c,r,s]
//
// Activations are fp32 or bf16, NHWC or NCHW16C, and each tensor has its own
// layout (chosen once by the model); products are summed in fp32. Filters are
// fp32 in canonical (K, C, R, S) order; their gradient is fp32, accumulated. On
// a GPU, x of bf16 may have channels of zeros behind its C (pad_channels),
// which add nothing and have no filters. For bf16, filters are rounded, or
// their copy is read if it has as many channels as x.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>

#include "ops/context.h"
#include "tensor/shadow.h"

namespace syncopate {

struct ConvSize {
  int64_t N, C, H, W;  // input
  int64_t K, R, S;     // filters
  int64_t stride = 1, pad = 0;
  int64_t P() const { return (H + 2 * pad - R) / stride + 1; }  // rows out
  int64_t Q() const { return (W + 2 * pad - S) / stride + 1; }  // columns out
  auto operator<=>(const ConvSize&) const = default;
};

void conv_forward(Context& context,
                  Tensor y,       // (N, K, P, Q)
                  ConstTensor x,  // (N, C, H, W)
                  ConstWeight w,  // (K, C, R, S) fp32
                  const ConvSize& size);

void conv_backward_data(Context& context,
                        Tensor dx,       // (N, C, H, W), assigned
                        ConstTensor dy,  // (N, K, P, Q)
                        ConstWeight w,   // (K, C, R, S) fp32
                        const ConvSize& size);

void conv_backward_weights(Context& context,
                           Tensor dw,       // (K, C, R, S) fp32, accumulated
                           ConstTensor x,   // (N, C, H, W)
                           ConstTensor dy,  // (N, K, P, Q)
                           const ConvSize& size);

// Returns the preferred layout of activations of C channels between a network's
// convolutions on this device: NHWC, or NCHW16C on a CPU with AVX-512 if C is a
// multiple of 16 (Winograd exists only for that). bf16 stays NHWC on a CPU with
// AMX tiles, whose convolutions exist only for NHWC.
Layout preferred_layout(const Device& device, DType dtype, int64_t C);

}  // namespace syncopate
