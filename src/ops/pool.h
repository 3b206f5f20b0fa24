// Pooling over image planes, fp32 or bf16, NHWC or NCHW16C.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate {

struct PoolSize {
  int64_t window, stride, pad;
};

// y[n,c] = mean over H, W of x[n,c,h,w]. y is (N, C) fp32 row-major.
void global_average_pool_forward(Context& context, Tensor y, ConstTensor x);
void global_average_pool_backward(Context& context,
                                  Tensor dx,        // (N, C, H, W), assigned
                                  ConstTensor dy);  // (N, C) fp32

// Maximum over windows, ignoring positions outside the image. `argmax` keeps
// the position inside the window (first maximum in row order).
void max_pool_forward(Context& context,
                      Tensor y,       // (N, C, P, Q)
                      Tensor argmax,  // (N, C, P, Q) u8, layout of y
                      ConstTensor x,  // (N, C, H, W)
                      const PoolSize& size);
void max_pool_backward(Context& context,
                       Tensor dx,       // (N, C, H, W), assigned
                       ConstTensor dy,  // (N, C, P, Q)
                       ConstTensor argmax,
                       const PoolSize& size);

}  // namespace syncopate
