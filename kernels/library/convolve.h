// Convolutions by cuDNN, as kernels/conv.cpp asks for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv.h"

namespace syncopate::cuda {

enum class ConvPass : uint8_t { kForward, kBackwardData, kBackwardWeights };
const char* name_of(ConvPass pass);

// One pass over dense tensors of x's dtype (fp32 or bf16), one of which is
// assigned: y = x * w, dx (as x) from dy, or dw (as krsc) from x and dy.
// Products are summed in fp32. The plan is made at the first call for a size
// and kept in the context, so before recording starts. Uses scratch 2.
void convolve(Context& context,
              ConvPass pass,
              const ConstTensor& x,  // (N, C, H, W) NHWC
              const void* krsc,      // (K, R, S, C)
              const ConstTensor& y,  // (N, K, P, Q) NHWC
              const ConvSize& size);

}  // namespace syncopate::cuda
