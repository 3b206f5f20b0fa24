// Optimizer steps, each in one pass over a flat range.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/touched_blocks.h"
#include "ops/context.h"
#include "tensor/shadow.h"

namespace syncopate {

struct SgdParams {
  float rate;
  float momentum;
  float weight_decay;
  float grad_scale = 1;  // 1/workers, 1/accumulation
  // Multiplies grad_scale; in the context's memory (clip_factor). Null: 1.
  const float* clip_factor = nullptr;
  bool nesterov = false;
  // An update writes the copies of x as well (copy_weights), in the same pass.
  ShadowSlice copies = {};
};

// g = grad_scale * clip_factor * gradient + weight_decay * x
// m = momentum * m + g             (m may be empty if momentum is 0)
// x = x - rate * (nesterov ? g + momentum * m : m)
// Sutskever et al. 2013 in the form of PyTorch and CHOCO-SGD (dampening 0).
void sgd_update(Context& context,
                std::span<float> x,
                std::span<float> momentum_buffer,
                std::span<const float> gradient,
                const SgdParams& params);

// Does the same without the step: direction = the factor of the rate above
// (params.rate is unused); m is updated, x is not. direction may alias
// gradient.
void sgd_direction(Context& context,
                   std::span<float> direction,
                   std::span<const float> x,
                   std::span<float> momentum_buffer,
                   std::span<const float> gradient,
                   const SgdParams& params);

struct AdamParams {
  float rate;
  float beta1, beta2, eps;
  // 1 - beta, rounded once: a float near 1 has lost most of it.
  float rest1 = 1 - beta1, rest2 = 1 - beta2;
  float weight_decay;
  bool is_decoupled;  // AdamW (Loshchilov and Hutter 2019)
  // 1 - beta^t after t steps including this one (Kingma and Ba 2015, alg. 1).
  float correction1, correction2;
  float grad_scale = 1;
  const float* clip_factor = nullptr;  // as in SgdParams
  // Not 0: the range consists of rows of this many elements, and rows whose
  // gradient is all zero are skipped, including their moments.
  int64_t lazy_row = 0;
  // With lazy_row: marks of the gradient. adam_update reads marked blocks only.
  TouchedBlocks touched = {};
  ShadowSlice copies = {};  // as in SgdParams; not of lazy rows
};

// g = grad_scale * clip_factor * gradient [+ weight_decay * x]
// m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
// d = (m / correction1) / (sqrt(v / correction2) + eps) [+ weight_decay * x]
// x = x - rate * d
// The first bracket applies if not is_decoupled, the second if it is. (As in
// PyTorch's Adam and AdamW, whose decoupled decay multiplies x by 1 - rate *
// weight_decay before the step, which is equivalent.)
void adam_update(Context& context,
                 std::span<float> x,
                 std::span<float> m,
                 std::span<float> v,
                 std::span<const float> gradient,
                 const AdamParams& params);

// direction = d of the above; m and v are updated, x is not. `direction` may
// alias `gradient`. d is 0 for skipped rows.
void adam_direction(Context& context,
                    std::span<float> direction,
                    std::span<const float> x,
                    std::span<float> m,
                    std::span<float> v,
                    std::span<const float> gradient,
                    const AdamParams& params);

}  // namespace syncopate
