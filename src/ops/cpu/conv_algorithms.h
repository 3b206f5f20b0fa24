// Selects the algorithm of each convolution from a fixed table by shape, so the
// bits of a run never depend on timing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv.h"

namespace syncopate::cpu {

enum class ConvAlgorithm : uint8_t { kDirect, kWinograd };

// Returns the preferred algorithm; if the library has no Winograd for the
// shape, the direct one is used instead.
ConvAlgorithm conv_algorithm(const ConvSize& size, DType dtype, Layout layout);

}  // namespace syncopate::cpu
