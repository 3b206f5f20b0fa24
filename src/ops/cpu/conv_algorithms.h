// Which algorithm each convolution uses: a fixed table by shape, so that the
// bits of a run never depend on a timing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv.h"

namespace syncopate::cpu {

enum class ConvAlgorithm : uint8_t { kDirect, kWinograd };

// What to ask for first; where the library has no Winograd for the shape, the
// direct algorithm is used instead.
ConvAlgorithm conv_algorithm(const ConvSize& size, DType dtype, Layout layout);

}  // namespace syncopate::cpu
