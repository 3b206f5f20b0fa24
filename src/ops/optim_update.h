// One pass over a flat range per optimizer step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ops/context.h"

namespace syncopate {

struct SgdParams {
  float rate;
  float momentum;
  float weight_decay;
  float grad_scale = 1;  // 1/workers, 1/accumulation
  // Multiplies grad_scale; in the context's memory (clip_factor). Null: 1.
  const float* clip_factor = nullptr;
  bool nesterov = false;
};

// g = grad_scale * clip_factor * gradient + weight_decay * x
// m = momentum * m + g             (momentum 0: m is not touched, may be empty)
// x = x - rate * (nesterov ? g + momentum * m : m)
// Sutskever et al. 2013 as PyTorch and CHOCO-SGD write it (dampening 0).
void sgd_update(Context& context,
                std::span<float> x,
                std::span<float> momentum_buffer,
                std::span<const float> gradient,
                const SgdParams& params);

// The same without the step: direction = what is multiplied by the rate above
// (params.rate is not used); x stays, m is updated. direction may be gradient.
void sgd_direction(Context& context,
                   std::span<float> direction,
                   std::span<const float> x,
                   std::span<float> momentum_buffer,
                   std::span<const float> gradient,
                   const SgdParams& params);

}  // namespace syncopate
