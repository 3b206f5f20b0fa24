// Writes the bf16 copies of a model's weights (tensor/shadow.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ops/context.h"
#include "tensor/shadow.h"

namespace syncopate {

// Rounds those elements of x that have copies to nearest even, ties to even.
// The updates of ops/optim_update.h can do the same in their pass.
void copy_weights(Context& context,
                  std::span<const float> x,
                  const ShadowSlice& copies);

}  // namespace syncopate
