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

struct AdamParams {
  float rate;
  float beta1, beta2, eps;
  float weight_decay;
  bool is_decoupled;  // AdamW (Loshchilov and Hutter 2019)
  // 1 - beta^t after t steps, this one counted (Kingma and Ba 2015, alg. 1).
  float correction1, correction2;
  float grad_scale = 1;
  const float* clip_factor = nullptr;  // as in SgdParams
  // Not 0: the range is rows of so many elements, and a row whose gradient is
  // all zero is left as it is, moments and all.
  int64_t lazy_row = 0;
};

// g = grad_scale * clip_factor * gradient [+ weight_decay * x]
// m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
// d = (m / correction1) / (sqrt(v / correction2) + eps) [+ weight_decay * x]
// x = x - rate * d
// The first bracket where not is_decoupled, the second where it is. (As
// PyTorch's Adam and AdamW, whose decoupled decay multiplies x by
// 1 - rate * weight_decay before the step: the same.)
void adam_update(Context& context,
                 std::span<float> x,
                 std::span<float> m,
                 std::span<float> v,
                 std::span<const float> gradient,
                 const AdamParams& params);

// direction = d of the above, m and v are updated, x stays; `direction` may be
// `gradient`. Of a row that is left alone d is 0.
void adam_direction(Context& context,
                    std::span<float> direction,
                    std::span<const float> x,
                    std::span<float> m,
                    std::span<float> v,
                    std::span<const float> gradient,
                    const AdamParams& params);

}  // namespace syncopate
